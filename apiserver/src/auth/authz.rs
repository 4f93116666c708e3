//! Authorisation: what an identity may do. Decides by a static table, default deny, until RBAC objects take its place behind the
//! same trait.

use super::{UserInfo, node};
use crate::core::Core;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// A resource verb, or the method in lower case for other paths.
    pub verb: &'a str,
    pub group: &'a str,
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

/// Allowed, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny(String),
}

pub trait Authorizer: Send + Sync {
    fn authorize(&self, core: &Core, user: &UserInfo, what: &Attributes<'_>) -> Decision;
}

/// The built-in identities' needs, in code.
pub struct StaticAuthorizer;

pub(super) const READ: [&str; 3] = ["get", "list", "watch"];
/// Open to everyone who is somebody.
const OPEN_PATHS: [&str; 8] =
    ["/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz", "/.well-known/openid-configuration"];
const SELF_REVIEWS: [&str; 3] = ["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"];

impl Authorizer for StaticAuthorizer {
    fn authorize(&self, core: &Core, user: &UserInfo, what: &Attributes<'_>) -> Decision {
        let allowed = user.in_group("system:masters")
            || everyone(user, what)
            || match user.username.as_str() {
                "system:kube-scheduler" => scheduler(what),
                "system:kube-controller-manager" => controllers(what),
                _ if user.node_name().is_some() => node::allows(core, user.node_name().unwrap_or(""), what),
                _ if user.in_group("system:node-proxiers") => node_proxy(what),
                _ => false,
            };
        if allowed { Decision::Allow } else { Decision::Deny(reason(user, what)) }
    }
}

/// Worded as Kubernetes words it; kubectl users know it.
fn reason(user: &UserInfo, what: &Attributes<'_>) -> String {
    let user = &user.username;
    match what.path {
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
    }
}

fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"]
        .iter()
        .any(|p| path == *p || path.strip_prefix(p).is_some_and(|r| r.starts_with('/')))
}

fn everyone(user: &UserInfo, what: &Attributes<'_>) -> bool {
    if let Some(path) = what.path {
        if is_health(path) {
            return true;
        }
        let under = |open: &str| path == open || path.strip_prefix(open).is_some_and(|rest| rest.starts_with('/'));
        let open = OPEN_PATHS.iter().any(|open| under(open)) || path == "/openid/v1/jwks";
        return user.in_group("system:authenticated") && what.verb == "get" && open;
    }
    user.in_group("system:authenticated") && what.verb == "create" && SELF_REVIEWS.contains(&what.resource)
}

fn reads(what: &Attributes<'_>) -> bool {
    READ.contains(&what.verb)
}

fn is(what: &Attributes<'_>, group: &str, resource: &str) -> bool {
    what.group == group && what.resource == resource
}

fn event_or_lease(what: &Attributes<'_>) -> bool {
    let writes = ["create", "patch", "update"].contains(&what.verb);
    let event = what.resource == "events" && ["", "events.k8s.io"].contains(&what.group) && writes;
    let lease = is(what, "coordination.k8s.io", "leases") && (writes || reads(what));
    event || lease
}

fn scheduler(what: &Attributes<'_>) -> bool {
    let binds = is(what, "", "pods") && what.subresource == "binding" && what.verb == "create";
    let bulk = is(what, "gantry.dev", "bindings") && what.verb == "create";
    let pods = is(what, "", "pods") && (what.subresource == "status" || what.verb == "delete");
    (reads(what) && what.resource != "secrets") || event_or_lease(what) || binds || bulk || pods
}

/// The loops create and change what users may declare; they do not bind and do not reach into containers.
fn controllers(what: &Attributes<'_>) -> bool {
    let forbidden =
        ["binding", "exec", "attach", "portforward"].contains(&what.subresource) || is(what, "gantry.dev", "bindings");
    what.path.is_none() && !forbidden
}

fn node_proxy(what: &Attributes<'_>) -> bool {
    const READABLE: [&str; 5] = ["services", "endpointslices", "endpoints", "nodes", "namespaces"];
    (reads(what) && READABLE.contains(&what.resource)) || event_or_lease(what)
}
