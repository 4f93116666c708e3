//! Who is calling and what they may do. Decides identity and permission; never what a request means.

pub mod authn;
pub mod authz;
pub mod impersonation;
pub mod peers;
pub mod tokens;

mod answers;
mod bootstrap_tokens;
mod node;
pub mod oidc;
pub mod rbac;
pub mod webhook;

use std::collections::BTreeMap;

/// An authenticated caller, as `authentication.k8s.io` words it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UserInfo {
    pub username: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A caller from a client certificate: its common name and organisations. `system:authenticated` is added.
    pub fn new(username: impl Into<String>, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        Self { username: username.into(), groups, ..Self::default() }
    }

    pub fn anonymous() -> Self {
        Self { username: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..Self::default() }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The machine's name when the caller is a node agent.
    pub fn node_name(&self) -> Option<&str> {
        self.in_group("system:nodes").then(|| self.username.strip_prefix("system:node:")).flatten()
    }
}
