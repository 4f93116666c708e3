//! The API server, by a kubeconfig: which resources it serves, and reading them, also as they were.

use crate::resources::{Resource, Resources};
use crate::{Misused, Scope};
use anyhow::Context;
use gantry_client::{ApiError, Client};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::{Path, PathBuf};

const JSON: &str = "application/json";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;q=0.9";

pub struct Access {
    pub client: Client,
    /// The context's namespace.
    namespace: String,
}

impl Access {
    /// By the first of these that is given or there: `kubeconfig`, `KUBECONFIG`, `of_machine`, `~/.kube/config`.
    pub async fn open(kubeconfig: Option<&Path>, of_machine: &Path) -> anyhow::Result<Self> {
        let path = match kubeconfig.map(Path::to_owned).or_else(named) {
            Some(path) => path,
            None => found(of_machine)?,
        };
        let file = Kubeconfig::read_from(&path)
            .map_err(|error| Misused(format!("{}: {error}: give a kubeconfig with --kubeconfig", path.display())))?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(|error| Misused(format!("{}: {error}", path.display())))?;
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let kube = kube::Client::try_from(config).map_err(|error| Misused(format!("{}: {error}", path.display())))?;
        Ok(Self { client: Client::new(kube).with_user_agent("gantry"), namespace })
    }

    /// The namespace that a command is about; empty for all.
    pub fn namespace(&self, scope: &Scope) -> String {
        match (scope.all_namespaces, scope.namespace.as_str()) {
            (true, _) => String::new(),
            (false, "") => self.namespace.clone(),
            (false, named) => named.to_owned(),
        }
    }

    pub async fn resources(&self) -> anyhow::Result<Resources> {
        let mut all = Resources::default();
        for path in ["/api", "/apis"] {
            let (_, body) =
                self.client.ask(Method::GET, path, None, DISCOVERY).await.context("asking what is served")?;
            all.add(&serde_json::from_slice(&body).context("the server's discovery")?);
        }
        Ok(all)
    }

    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.get_as(path, JSON).await
    }

    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Value, ApiError> {
        let (_, body) = self.client.ask(Method::GET, path, None, accept).await?;
        serde_json::from_slice(&body).map_err(ApiError::Decode)
    }

    /// An object, unless there is none or it may not be read.
    pub async fn look(&self, path: &str) -> Option<Value> {
        self.get(path).await.ok()
    }

    /// The items of a list; none if they may not be read.
    pub async fn items(&self, resource: &Resource, namespace: &str, query: &str) -> Vec<Value> {
        let list = self.look(&format!("{}{query}", resource.path(namespace, ""))).await;
        let items = list.and_then(|mut list| list.get_mut("items").map(Value::take));
        match items {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
    }
}

/// The file that `KUBECONFIG` names. As kubectl, but for one file: of several it is the first, and they are never merged.
pub fn named() -> Option<PathBuf> {
    let names = std::env::var_os("KUBECONFIG").filter(|text| !text.is_empty())?;
    std::env::split_paths(&names).next()
}

fn found(of_machine: &Path) -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    let mut known = [Some(of_machine.to_owned()), home].into_iter().flatten();
    known.find(|path| std::fs::File::open(path).is_ok()).ok_or_else(|| {
        Misused(format!("there is no kubeconfig (nor {}): give one with --kubeconfig", of_machine.display())).into()
    })
}

/// `?a=b&c=d` of the pairs that have a value.
pub fn query(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(key);
        out.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                out.push(byte.into());
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped_and_have_no_empty_values() {
        assert_eq!(query(&[("at", "-2m"), ("b", ""), ("l", "a=b,c in (d)")]), "?at=-2m&l=a%3Db%2Cc%20in%20%28d%29");
        assert_eq!(query(&[("a", "")]), "");
    }
}
