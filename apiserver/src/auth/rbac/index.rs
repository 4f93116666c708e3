//! Bindings by the subjects that they name, and roles by name. Decides which bindings speak for a user in a namespace without
//! looking at any other; never whether their rules allow anything.

use super::rule::Rule;
use crate::auth::UserInfo;
use crate::kinds::value::{items, str_at};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A RoleBinding, or a ClusterRoleBinding when it has no namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    namespace: Box<str>,
    name: Box<str>,
    /// Of a ClusterRole, as every ClusterRoleBinding is.
    of_cluster_role: bool,
    role: Box<str>,
    subjects: Vec<Subject>,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(Box<str>),
    Group(Box<str>),
    Account { namespace: Box<str>, name: Box<str> },
}

impl Binding {
    pub fn read(binding: &Value) -> Self {
        let namespace = str_at(binding, "metadata.namespace");
        let subject = |subject: &Value| {
            let name = str_at(subject, "name");
            match str_at(subject, "kind") {
                "User" => Some(Subject::User(name.into())),
                "Group" => Some(Subject::Group(name.into())),
                "ServiceAccount" => {
                    let own = str_at(subject, "namespace");
                    let namespace = if own.is_empty() { namespace } else { own };
                    (!namespace.is_empty()).then(|| Subject::Account { namespace: namespace.into(), name: name.into() })
                }
                _ => None,
            }
        };
        Self {
            namespace: namespace.into(),
            name: str_at(binding, "metadata.name").into(),
            of_cluster_role: str_at(binding, "roleRef.kind") == "ClusterRole",
            role: str_at(binding, "roleRef.name").into(),
            subjects: items(binding, "subjects").iter().filter_map(subject).collect(),
        }
    }
}

/// That a binding speaks for somebody through one of its subjects. Displayed as Kubernetes gives the reason of what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    binding: Arc<Binding>,
    subject: usize,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = &*self.binding;
        match &*binding.namespace {
            "" => write!(f, "ClusterRoleBinding {:?}", binding.name)?,
            namespace => write!(f, "RoleBinding {:?}", format!("{}/{namespace}", binding.name))?,
        }
        let kind = if binding.of_cluster_role { "ClusterRole" } else { "Role" };
        write!(f, " of {kind} {:?} to ", binding.role)?;
        match &binding.subjects[self.subject] {
            Subject::User(name) => write!(f, "User {name:?}"),
            Subject::Group(name) => write!(f, "Group {name:?}"),
            Subject::Account { namespace, name } => write!(f, "ServiceAccount {:?}", format!("{name}/{namespace}")),
        }
    }
}

/// The bindings of one namespace, or of the cluster. Each list in the order of the bindings' names.
#[derive(Debug, Default)]
struct Scope {
    users: HashMap<Box<str>, Vec<Grant>>,
    groups: HashMap<Box<str>, Vec<Grant>>,
}

type Rules = Arc<[Rule]>;

/// The RBAC objects of the cluster.
#[derive(Debug, Default)]
pub struct Index {
    /// Under `""` those of the cluster.
    roles: HashMap<Box<str>, HashMap<Box<str>, Rules>>,
    bindings: HashMap<Box<str>, HashMap<Box<str>, Arc<Binding>>>,
    scopes: HashMap<Box<str>, Scope>,
}

impl Index {
    /// Takes a new version of a role, or its absence. `namespace` is empty for a ClusterRole.
    pub fn set_role(&mut self, namespace: &str, name: &str, rules: Option<Vec<Rule>>) {
        set(&mut self.roles, namespace, name, rules.map(Into::into));
    }

    /// Takes a new version of a binding, or its absence.
    pub fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<Binding>) {
        let binding = binding.map(Arc::new);
        let old = set(&mut self.bindings, namespace, name, binding.clone());
        if old.is_none() && binding.is_none() {
            return;
        }
        let scope = self.scopes.entry(namespace.into()).or_default();
        if let Some(old) = old {
            scope.remove(&old);
        }
        if let Some(binding) = binding {
            scope.add(&binding);
        }
        if scope.users.is_empty() && scope.groups.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Forgets the roles, or the bindings, of all namespaces or of the cluster.
    pub fn clear_roles(&mut self, of_cluster: bool) {
        self.roles.retain(|namespace, _| namespace.is_empty() != of_cluster);
    }

    pub fn clear_bindings(&mut self, of_cluster: bool) {
        self.bindings.retain(|namespace, _| namespace.is_empty() != of_cluster);
        self.scopes.retain(|namespace, _| namespace.is_empty() != of_cluster);
    }

    /// The rules of a role; else what Kubernetes says of a role that is not there.
    pub fn role(&self, of_cluster: bool, namespace: &str, name: &str) -> Result<&Rules, String> {
        let (scope, kind) = if of_cluster { ("", "clusterrole") } else { (namespace, "role") };
        let found = self.roles.get(scope).and_then(|roles| roles.get(name));
        found.ok_or_else(|| format!("{kind}.rbac.authorization.k8s.io {name:?} not found"))
    }

    /// Shows every binding that speaks for the user, those of the cluster first, with its rules.
    pub fn visit(
        &self,
        user: &UserInfo,
        namespace: &str,
        mut show: impl FnMut(&Grant, Result<&Rules, String>) -> ControlFlow<()>,
    ) {
        let namespaced = Some(namespace).filter(|namespace| !namespace.is_empty());
        for scope in std::iter::once("").chain(namespaced) {
            let Some(scope) = self.scopes.get(scope) else { continue };
            let own = scope.users.get(user.username.as_str());
            let groups = user.groups.iter().filter_map(|group| scope.groups.get(group.as_str()));
            for grant in own.into_iter().chain(groups).flatten() {
                let binding = &grant.binding;
                let rules = self.role(binding.of_cluster_role, &binding.namespace, &binding.role);
                if show(grant, rules).is_break() {
                    return;
                }
            }
        }
    }
}

/// Returns what was there.
fn set<T>(
    map: &mut HashMap<Box<str>, HashMap<Box<str>, T>>,
    namespace: &str,
    name: &str,
    value: Option<T>,
) -> Option<T> {
    match value {
        Some(value) => map.entry(namespace.into()).or_default().insert(name.into(), value),
        None => {
            let inner = map.get_mut(namespace)?;
            let old = inner.remove(name);
            if inner.is_empty() {
                map.remove(namespace);
            }
            old
        }
    }
}

impl Scope {
    fn list(&mut self, subject: &Subject) -> (&mut HashMap<Box<str>, Vec<Grant>>, Box<str>) {
        match subject {
            Subject::User(name) => (&mut self.users, name.clone()),
            Subject::Group(name) => (&mut self.groups, name.clone()),
            Subject::Account { namespace, name } => {
                (&mut self.users, format!("system:serviceaccount:{namespace}:{name}").into())
            }
        }
    }

    fn add(&mut self, binding: &Arc<Binding>) {
        for (subject, whom) in binding.subjects.iter().enumerate() {
            let (map, key) = self.list(whom);
            let list = map.entry(key).or_default();
            let place = list.partition_point(|grant| grant.binding.name < binding.name);
            // A subject that is named twice is granted once.
            if list.get(place).is_none_or(|grant| grant.binding.name != binding.name) {
                list.insert(place, Grant { binding: binding.clone(), subject });
            }
        }
    }

    fn remove(&mut self, binding: &Binding) {
        for whom in &binding.subjects {
            let (map, key) = self.list(whom);
            if let Some(list) = map.get_mut(&key) {
                let place = list.partition_point(|grant| grant.binding.name < binding.name);
                if list.get(place).is_some_and(|grant| grant.binding.name == binding.name) {
                    list.remove(place);
                }
                if list.is_empty() {
                    map.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn binding(namespace: &str, name: &str, role: &str, subjects: &[(&str, &str)]) -> Binding {
        let subjects: Vec<Value> = subjects.iter().map(|(kind, name)| json!({"kind": kind, "name": name})).collect();
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        Binding::read(&json!({
            "metadata": {"name": name, "namespace": namespace}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects,
        }))
    }

    fn seen(index: &Index, user: &UserInfo, namespace: &str) -> Vec<String> {
        let mut seen = Vec::new();
        index.visit(user, namespace, |grant, rules| {
            let rules = rules.map_or_else(|missing| missing, |rules| format!("{} rules", rules.len()));
            seen.push(format!("{grant}: {rules}"));
            ControlFlow::Continue(())
        });
        seen
    }

    #[test]
    fn a_user_sees_the_bindings_of_name_groups_and_namespace() {
        let mut index = Index::default();
        index.set_role("", "r", Some(vec![Rule::default()]));
        index.set_role("n", "r", Some(vec![]));
        index.set_binding(
            "",
            "b",
            Some(binding("", "b", "r", &[("User", "jane"), ("Group", "dev"), ("User", "jane")])),
        );
        index.set_binding("n", "b", Some(binding("n", "b", "r", &[("ServiceAccount", "a"), ("Group", "dev")])));
        index.set_binding("m", "b", Some(binding("m", "b", "none", &[("User", "jane")])));
        let jane = UserInfo::new("jane", &[]);
        let by_name = r#"ClusterRoleBinding "b" of ClusterRole "r" to User "jane": 1 rules"#;
        assert_eq!(seen(&index, &jane, "n"), [by_name]);
        let missing =
            r#"RoleBinding "b/m" of Role "none" to User "jane": role.rbac.authorization.k8s.io "none" not found"#;
        assert_eq!(seen(&index, &jane, "m"), [by_name, missing]);
        let joe = UserInfo::new("joe", &["dev"]);
        let expect = [
            r#"ClusterRoleBinding "b" of ClusterRole "r" to Group "dev": 1 rules"#,
            r#"RoleBinding "b/n" of Role "r" to Group "dev": 0 rules"#,
        ];
        assert_eq!(seen(&index, &joe, "n"), expect);
        assert_eq!(seen(&index, &joe, ""), expect[..1]);
        let account = UserInfo::new("system:serviceaccount:n:a", &[]);
        assert_eq!(seen(&index, &account, "n"), [r#"RoleBinding "b/n" of Role "r" to ServiceAccount "a/n": 0 rules"#]);
        // A changed binding loses its old subjects; a removed one leaves nothing behind.
        index.set_binding("", "b", Some(binding("", "b", "r", &[("Group", "dev")])));
        assert_eq!(seen(&index, &jane, "n"), Vec::<String>::new());
        for namespace in ["", "n", "m"] {
            index.set_binding(namespace, "b", None);
        }
        assert_eq!(seen(&index, &joe, "n"), Vec::<String>::new());
        assert!(index.scopes.is_empty() && index.bindings.is_empty());
    }

    #[test]
    fn what_names_others_is_not_looked_at() {
        let mut index = Index::default();
        for i in 0..10_000 {
            let name = format!("b{i}");
            index.set_binding("n", &name, Some(binding("n", &name, "r", &[("User", &format!("user-{i}"))])));
        }
        let mut looked = 0;
        index.visit(&UserInfo::new("user-7", &[]), "n", |_, _| {
            looked += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(looked, 1);
    }

    proptest::proptest! {
        /// However a state came about, it grants what the same state grants that was made at once.
        #[test]
        fn the_index_is_what_its_objects_are(
            steps in proptest::collection::vec((0..3_usize, 0..3_usize, proptest::option::of((0..2_usize, 0..8_u8))), 0..40)
        ) {
            const NAMESPACES: [&str; 3] = ["", "n", "m"];
            const NAMES: [&str; 3] = ["a", "b", "c"];
            const SUBJECTS: [(&str, &str); 3] = [("User", "jane"), ("Group", "dev"), ("ServiceAccount", "x")];
            let make = |namespace: &str, name: &str, (role, whom): (usize, u8)| {
                let named = |i: usize| (whom & (1 << i) != 0).then_some(SUBJECTS[i]);
                let subjects: Vec<_> = (0..3).filter_map(named).collect();
                binding(namespace, name, NAMES[role], &subjects)
            };
            let (mut grown, mut state) = (Index::default(), std::collections::BTreeMap::new());
            for (namespace, name, content) in steps {
                let (namespace, name) = (NAMESPACES[namespace], NAMES[name]);
                grown.set_binding(namespace, name, content.map(|content| make(namespace, name, content)));
                state.insert((namespace, name), content);
            }
            let mut made = Index::default();
            for ((namespace, name), content) in state.into_iter().filter_map(|(key, content)| Some((key, content?))) {
                made.set_binding(namespace, name, Some(make(namespace, name, content)));
            }
            for (who, groups) in [("jane", &["dev"][..]), ("joe", &["dev"]), ("system:serviceaccount:n:x", &[])] {
                let user = UserInfo::new(who, groups);
                for namespace in NAMESPACES {
                    proptest::prop_assert_eq!(seen(&grown, &user, namespace), seen(&made, &user, namespace));
                }
            }
        }
    }

    #[test]
    fn clearing_keeps_the_other_scope() {
        let mut index = Index::default();
        for namespace in ["", "n"] {
            index.set_role(namespace, "r", Some(vec![]));
            index.set_binding(namespace, "b", Some(binding(namespace, "b", "r", &[("User", "jane")])));
        }
        index.clear_roles(true);
        index.clear_bindings(false);
        let jane = UserInfo::new("jane", &[]);
        let missing = r#"ClusterRoleBinding "b" of ClusterRole "r" to User "jane": clusterrole.rbac.authorization.k8s.io "r" not found"#;
        assert_eq!(seen(&index, &jane, "n"), [missing]);
        assert!(index.role(false, "n", "r").is_ok());
    }
}
