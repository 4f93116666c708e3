//! Kubernetes' role-based access control. Decides what the roles and bindings of the cluster allow, from an index that follows
//! the watch cache; who the caller is, and what is allowed without roles, is decided elsewhere.

pub mod aggregation;
pub mod cover;
pub mod defaults;
pub mod escalation;
mod index;
pub mod reconcile;
pub mod rule;

use super::UserInfo;
use super::authz::Attributes;
use crate::cache::{Follower, Group, Object, Tree};
use gantry_apimachinery::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, ROLE, ROLE_BINDING};
pub use index::Grant;
use index::{Binding, Index};
use parking_lot::RwLock;
use rule::{Rule, rules_of};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::Notify;

/// What the roles of somebody come to.
#[derive(Debug, Default)]
pub struct Held {
    pub rules: Vec<Rule>,
    /// The roles that bindings name and that are not there.
    pub missing: Vec<String>,
}

/// The RBAC objects of the watch cache.
#[derive(Default)]
pub struct Rbac {
    index: RwLock<Index>,
    /// A ClusterRole came, changed or went.
    pub cluster_roles_changed: Notify,
}

impl Rbac {
    /// An index that follows the store group's cache.
    pub fn following(group: &Group) -> Arc<Self> {
        let rbac = Arc::new(Self::default());
        for kind in [&ROLE, &ROLE_BINDING, &CLUSTER_ROLE, &CLUSTER_ROLE_BINDING] {
            let follower = Arc::new(Following { rbac: rbac.clone(), kind });
            group.built_in(kind).expect("roles and bindings are kept with the cluster's state").follow(follower);
        }
        rbac
    }

    /// The binding that allows it; else the roles that are missing and might have.
    pub fn authorize(&self, user: &UserInfo, what: &Attributes<'_>) -> Result<Grant, String> {
        let (mut allowed, mut missing) = (None, Vec::new());
        self.index.read().visit(user, what.namespace, |grant, rules| match rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(what)) => {
                allowed = Some(grant.clone());
                ControlFlow::Break(())
            }
            Ok(_) => ControlFlow::Continue(()),
            Err(text) => {
                missing.push(text);
                ControlFlow::Continue(())
            }
        });
        allowed.ok_or_else(|| hint(missing))
    }

    /// All that the user holds in a namespace, or in the whole cluster when it is empty.
    pub fn held(&self, user: &UserInfo, namespace: &str) -> Held {
        let mut held = Held::default();
        let mut seen: Vec<*const Rule> = Vec::new();
        self.index.read().visit(user, namespace, |_, rules| {
            match rules {
                // One role is often bound to several of a user's groups.
                Ok(rules) if seen.contains(&rules.as_ptr()) => {}
                Ok(rules) => {
                    seen.push(rules.as_ptr());
                    held.rules.extend(rules.iter().cloned());
                }
                Err(text) => held.missing.push(text),
            }
            ControlFlow::Continue(())
        });
        held
    }

    /// The rules of the role that a binding in a namespace (`""`: of the cluster) refers to.
    pub fn rules_of(&self, of_cluster: bool, namespace: &str, name: &str) -> Result<Vec<Rule>, String> {
        self.index.read().role(of_cluster, namespace, name).map(|rules| rules.to_vec())
    }
}

/// As Kubernetes adds it to a refusal.
fn hint(mut missing: Vec<String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    missing.retain(|text| {
        let new = !seen.contains(text);
        seen.push(text.clone());
        new
    });
    match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        all => format!("RBAC: [{}]", all.join(", ")),
    }
}

/// Keeps the index to one kind's cache.
struct Following {
    rbac: Arc<Rbac>,
    kind: &'static Kind,
}

impl Following {
    fn is_role(&self) -> bool {
        [&ROLE, &CLUSTER_ROLE].contains(&self.kind)
    }

    fn take(&self, index: &mut Index, path: &str, object: Option<&Object>) {
        let (namespace, name) =
            if self.kind.namespaced { path.split_once('/').unwrap_or(("", path)) } else { ("", path) };
        // What cannot be read grants nothing.
        let value = object.map(|object| object.value().unwrap_or_default());
        if self.is_role() {
            index.set_role(namespace, name, value.as_ref().map(rules_of));
        } else {
            index.set_binding(namespace, name, value.as_ref().map(Binding::read));
        }
    }
}

impl Follower for Following {
    fn reset(&self, tree: &Tree) {
        let mut index = self.rbac.index.write();
        if self.is_role() {
            index.clear_roles(!self.kind.namespaced);
        } else {
            index.clear_bindings(!self.kind.namespaced);
        }
        for (path, object) in tree {
            self.take(&mut index, path, Some(object));
        }
        self.rbac.cluster_roles_changed.notify_one();
    }

    fn changed(&self, path: &str, object: Option<&Object>) {
        self.take(&mut self.rbac.index.write(), path, object);
        if self.kind == &CLUSTER_ROLE {
            self.rbac.cluster_roles_changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{EventType, HistoryLimits, Resource};
    use serde_json::{Value, json};

    fn resource(kind: &'static Kind, rbac: &Arc<Rbac>) -> Resource {
        let resource = Resource::new(kind, HistoryLimits { age_ms: 1_000, bytes: 1_000 }, Arc::default());
        resource.follow(Arc::new(Following { rbac: rbac.clone(), kind }));
        resource
    }

    fn object(value: &Value) -> Object {
        Object::parse(value.to_string().as_bytes(), 7, EventType::Added, &[]).unwrap()
    }

    fn allowed(rbac: &Rbac, namespace: &str) -> String {
        let what = Attributes { verb: "get", resource: "pods", namespace, name: "a", ..Attributes::default() };
        match rbac.authorize(&UserInfo::new("jane", &[]), &what) {
            Ok(grant) => grant.to_string(),
            Err(why) => why,
        }
    }

    #[test]
    fn the_index_follows_the_cache() {
        let rbac = Arc::new(Rbac::default());
        let (roles, bindings) = (resource(&ROLE, &rbac), resource(&ROLE_BINDING, &rbac));
        let role = object(&json!({
            "metadata": {"name": "r", "namespace": "n"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        }));
        let binding = |namespace: &str| {
            object(&json!({
                "metadata": {"name": "b", "namespace": namespace}, "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "jane"}],
            }))
        };
        let missing = r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#;
        assert_eq!(allowed(&rbac, "n"), "");
        bindings.put("n/b", binding("n"), false, 1);
        assert_eq!(allowed(&rbac, "n"), missing);
        roles.put("n/r", role, false, 1);
        assert_eq!(allowed(&rbac, "n"), r#"RoleBinding "b/n" of Role "r" to User "jane""#);
        assert_eq!(allowed(&rbac, "m"), "");
        roles.delete("n/r", 8, false, 1);
        assert_eq!(allowed(&rbac, "n"), missing);
        bindings.reset(vec![binding("m")], 9);
        assert_eq!((allowed(&rbac, "n"), allowed(&rbac, "m")), (String::new(), missing.to_owned()));
    }
}
