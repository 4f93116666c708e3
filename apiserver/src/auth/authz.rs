//! Authorisation: what an identity may do. Decides the order (what is open to all, administrators, the node authoriser, RBAC) and
//! how a refusal reads; the rules are the cluster's own objects.

use super::rbac::{Grant as RoleGrant, Rbac};
use super::{UserInfo, node};
use crate::core::Core;
use gantry_apimachinery::status::Status;
use std::fmt;
use std::sync::Arc;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// A resource verb, or the method in lower case for other paths.
    pub verb: &'a str,
    pub group: &'a str,
    /// For whom else is asked; the rules here know none.
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Also the one name that a list or watch is limited to.
    pub name: &'a str,
    /// For paths that are not resources.
    pub path: Option<&'a str>,
    /// The machine that a list or watch of pods is limited to.
    pub node_selector: Option<&'a str>,
}

/// Allowed by what, or why not beyond that nothing allows it (often empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Grant),
    Deny(String),
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// Why somebody is allowed something. Displayed as a review gives its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Everybody is, or everybody in `system:masters`.
    Always,
    /// A node agent's own business.
    Node,
    Role(RoleGrant),
    /// Another server allows it, for this reason.
    Webhook(String),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always | Self::Node => Ok(()),
            Self::Webhook(reason) => f.write_str(reason),
            Self::Role(grant) => write!(f, "RBAC: allowed by {grant}"),
        }
    }
}

pub trait Authorizer: Send + Sync {
    fn authorize(&self, core: &Core, user: &UserInfo, what: &Attributes<'_>) -> Decision;
}

/// The authorisers of this server in their order.
pub struct Authorizers {
    pub rbac: Arc<Rbac>,
}

pub(super) const READ: [&str; 3] = ["get", "list", "watch"];
/// Open also before there is any role, as Kubernetes' `--authorization-always-allow-paths`.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/livez", "/readyz"];
const MASTERS: &str = "system:masters";

impl Authorizer for Authorizers {
    fn authorize(&self, core: &Core, user: &UserInfo, what: &Attributes<'_>) -> Decision {
        if user.in_group(MASTERS) || what.path.is_some_and(|path| OPEN_PATHS.contains(&path)) {
            return Decision::Allow(Grant::Always);
        }
        let agent = user.node_name();
        if agent.is_some_and(|name| node::allows(core, name, what)) {
            return Decision::Allow(Grant::Node);
        }
        match self.rbac.authorize(user, what) {
            Ok(grant) => Decision::Allow(Grant::Role(grant)),
            Err(why) => {
                let unrelated = agent.and_then(|name| node::unrelated(name, what));
                let reasons = unrelated.into_iter().chain(Some(why).filter(|why| !why.is_empty()));
                Decision::Deny(reasons.collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

/// Worded as Kubernetes words it; kubectl users know it. `why` may be empty.
pub fn refusal(user: &UserInfo, what: &Attributes<'_>, why: &str) -> String {
    let user = &user.username;
    let text = match what.path {
        Some(path) => format!("User {user:?} cannot {} path {path:?}", what.verb),
        None => {
            let sub = if what.subresource.is_empty() { String::new() } else { format!("/{}", what.subresource) };
            let place = match what.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {user:?} cannot {} resource \"{}{sub}\" in API group {:?} {place}",
                what.verb, what.resource, what.group
            )
        }
    };
    if why.is_empty() { text } else { format!("{text}: {why}") }
}

/// The answer to what is not allowed.
pub fn forbidden(user: &UserInfo, what: &Attributes<'_>, why: &str) -> Status {
    let resource =
        if what.group.is_empty() { what.resource.to_owned() } else { format!("{}.{}", what.resource, what.group) };
    Status::forbidden(&resource, what.name, &refusal(user, what, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_in_kubernetes() {
        let jane = UserInfo::new("jane", &[]);
        let check = |what: Attributes<'_>, why: &str, expect: &str| {
            assert_eq!(forbidden(&jane, &what, why).message, expect);
        };
        let pods = Attributes { verb: "get", resource: "pods", namespace: "n", name: "a", ..Attributes::default() };
        let said =
            r#"pods "a" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "n""#;
        check(pods, "", said);
        let hint = r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#;
        check(pods, hint, &format!("{said}: {hint}"));
        let scale = Attributes {
            verb: "update",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            ..Attributes::default()
        };
        let said = r#"deployments.apps is forbidden: User "jane" cannot update resource "deployments/scale" in API group "apps" at the cluster scope"#;
        check(scale, "", said);
        let path = Attributes { verb: "get", path: Some("/metrics"), ..Attributes::default() };
        check(path, "", r#"forbidden: User "jane" cannot get path "/metrics""#);
    }
}
