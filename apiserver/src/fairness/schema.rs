//! Which flow a request belongs to. Decides by the FlowSchemas in the order of their precedence, compiled so that a request looks only
//! at the rules that name its user, one of its groups, or everybody. Never who runs.

use crate::auth::UserInfo;
use crate::auth::authz::Attributes;
use crate::kinds::value::{bool_at, i64_at, items, str_at};
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    None,
    User,
    Namespace,
}

/// A FlowSchema as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub name: Box<str>,
    /// Empty while the object is not in the cache.
    pub uid: Box<str>,
    pub level: Box<str>,
    pub precedence: i64,
    pub distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Everybody,
    User(Box<str>),
    Group(Box<str>),
    /// Every service account of a namespace.
    AccountsOf(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    namespaces: Names,
    cluster: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PathRule {
    verbs: Names,
    paths: Vec<Box<str>>,
}

/// Names, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    Some(Vec<Box<str>>),
}

impl Names {
    fn read(values: &[Value]) -> Self {
        if values.iter().any(|value| value == "*") {
            return Self::All;
        }
        Self::Some(values.iter().filter_map(Value::as_str).map(Into::into).collect())
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.iter().any(|one| **one == *name),
        }
    }
}

impl Schema {
    pub fn read(object: &Value) -> Self {
        let distinguisher = match str_at(object, "spec.distinguisherMethod.type") {
            "ByUser" => Distinguisher::User,
            "ByNamespace" => Distinguisher::Namespace,
            _ => Distinguisher::None,
        };
        Self {
            name: str_at(object, "metadata.name").into(),
            uid: str_at(object, "metadata.uid").into(),
            level: str_at(object, "spec.priorityLevelConfiguration.name").into(),
            precedence: i64_at(object, "spec.matchingPrecedence").unwrap_or(i64::MAX),
            distinguisher,
            rules: items(object, "spec.rules").iter().map(Rule::read).collect(),
        }
    }

    /// What tells this flow from others of the schema.
    pub fn distinguish<'a>(&self, user: &'a str, namespace: &'a str) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::User => user,
            Distinguisher::Namespace => namespace,
        }
    }

    /// The flow's number, by which its queues are dealt.
    pub fn flow(&self, distinguished: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        distinguished.hash(&mut hasher);
        hasher.finish()
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let resource = |rule: &Value| ResourceRule {
            verbs: Names::read(items(rule, "verbs")),
            groups: Names::read(items(rule, "apiGroups")),
            resources: Names::read(items(rule, "resources")),
            namespaces: Names::read(items(rule, "namespaces")),
            cluster: bool_at(rule, "clusterScope"),
        };
        let path = |rule: &Value| PathRule {
            verbs: Names::read(items(rule, "verbs")),
            paths: items(rule, "nonResourceURLs").iter().filter_map(Value::as_str).map(Into::into).collect(),
        };
        Self {
            subjects: items(rule, "subjects").iter().filter_map(Subject::read).collect(),
            resources: items(rule, "resourceRules").iter().map(resource).collect(),
            paths: items(rule, "nonResourceRules").iter().map(path).collect(),
        }
    }

    fn matches(&self, what: &Attributes<'_>) -> bool {
        match what.path {
            Some(path) => self.paths.iter().any(|rule| rule.matches(what.verb, path)),
            None => self.resources.iter().any(|rule| rule.matches(what)),
        }
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Self> {
        let (user, group) = (str_at(subject, "user.name"), str_at(subject, "group.name"));
        let (namespace, account) =
            (str_at(subject, "serviceAccount.namespace"), str_at(subject, "serviceAccount.name"));
        match (str_at(subject, "kind"), user, group, account) {
            ("User", "*", ..) | ("Group", _, "*", _) => Some(Self::Everybody),
            ("User", name, ..) => Some(Self::User(name.into())),
            ("Group", _, name, _) => Some(Self::Group(name.into())),
            ("ServiceAccount", _, _, "*") => Some(Self::AccountsOf(namespace.into())),
            ("ServiceAccount", _, _, name) => {
                Some(Self::User(format!("system:serviceaccount:{namespace}:{name}").into()))
            }
            _ => None,
        }
    }
}

impl ResourceRule {
    fn matches(&self, what: &Attributes<'_>) -> bool {
        let scope = if what.namespace.is_empty() { self.cluster } else { self.namespaces.has(what.namespace) };
        scope && self.verbs.has(what.verb) && self.groups.has(what.group) && self.has_resource(what)
    }

    fn has_resource(&self, what: &Attributes<'_>) -> bool {
        let Names::Some(names) = &self.resources else { return true };
        names.iter().any(|name| match name.split_once('/') {
            Some((resource, sub)) => resource == what.resource && sub == what.subresource,
            None => **name == *what.resource && what.subresource.is_empty(),
        })
    }
}

impl PathRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        let on = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == pattern,
        };
        self.verbs.has(verb) && self.paths.iter().any(|pattern| on(pattern))
    }
}

/// All schemas, by whom their rules name.
#[derive(Debug)]
pub struct Classifier<S> {
    schemas: Vec<S>,
    everybody: Vec<Place>,
    users: Named,
    groups: Named,
    accounts_of: Named,
}

/// `(schema, rule)`.
type Place = (usize, usize);
/// Places in the order in which they are tried.
type Named = HashMap<Box<str>, Vec<Place>>;

impl<S: AsRef<Schema>> Classifier<S> {
    pub fn new(mut schemas: Vec<S>) -> Self {
        schemas.sort_by(|a, b| {
            let key = |schema: &Schema| (schema.precedence, schema.name.clone());
            key(a.as_ref()).cmp(&key(b.as_ref()))
        });
        let mut made = Self {
            schemas: Vec::new(),
            everybody: Vec::new(),
            users: Named::new(),
            groups: Named::new(),
            accounts_of: Named::new(),
        };
        for (at, schema) in schemas.iter().enumerate() {
            for (rule_at, rule) in schema.as_ref().rules.iter().enumerate() {
                for subject in &rule.subjects {
                    let places = match subject {
                        Subject::Everybody => &mut made.everybody,
                        Subject::User(name) => made.users.entry(name.clone()).or_default(),
                        Subject::Group(name) => made.groups.entry(name.clone()).or_default(),
                        Subject::AccountsOf(name) => made.accounts_of.entry(name.clone()).or_default(),
                    };
                    places.push((at, rule_at));
                }
            }
        }
        Self { schemas, ..made }
    }

    pub fn schemas(&self) -> &[S] {
        &self.schemas
    }

    /// The first schema that names the user and what is asked for.
    pub fn classify(&self, user: &UserInfo, what: &Attributes<'_>) -> Option<&S> {
        let mut best: Option<Place> = None;
        let mut look = |places: Option<&Vec<Place>>| {
            let better = places.into_iter().flatten().take_while(|place| best.is_none_or(|best| **place < best));
            let found = better.copied().find(|(at, rule)| self.schemas[*at].as_ref().rules[*rule].matches(what));
            best = found.or(best);
        };
        look(Some(&self.everybody));
        look(self.users.get(user.username.as_str()));
        for group in &user.groups {
            look(self.groups.get(group.as_str()));
        }
        let account = user.username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        if let Some((namespace, _)) = account {
            look(self.accounts_of.get(namespace));
        }
        best.map(|(at, _)| &self.schemas[at])
    }
}

#[cfg(test)]
mod tests {
    use super::super::defaults;
    use super::*;
    use gantry_apimachinery::kinds::FLOW_SCHEMA;
    use serde_json::json;
    use std::sync::Arc;

    fn resource<'a>(verb: &'a str, group: &'a str, resource: &'a str, namespace: &'a str) -> Attributes<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes { verb, group, resource, subresource, namespace, ..Attributes::default() }
    }

    #[test]
    fn callers_find_their_suggested_schema() {
        let schemas = defaults::all().iter().filter(|one| one.kind == &FLOW_SCHEMA);
        let classifier = Classifier::new(schemas.map(|one| Arc::new(Schema::read(&one.object()))).collect());
        let check = |user: &str, groups: &[&str], what: Attributes<'_>, expect: &str| {
            let found = classifier.classify(&UserInfo::new(user, groups), &what).unwrap();
            assert_eq!(&*found.name, expect, "{user:?} {what:?}");
        };
        let leases = |verb| resource(verb, "coordination.k8s.io", "leases", "n");
        let pods = resource("list", "", "pods", "n");
        let nodes = ["system:nodes"];
        let account = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        check("root", &["system:masters"], pods, "exempt");
        check("root", &["system:masters"], resource("get", "", "nodes", ""), "exempt");
        check("system:node:a", &nodes, leases("patch"), "system-node-high");
        check("system:node:a", &nodes, resource("patch", "", "nodes/status", ""), "system-node-high");
        check("system:node:a", &nodes, resource("patch", "", "pods/status", "n"), "gantry-pod-status");
        check("system:node:a", &nodes, pods, "system-nodes");
        check("system:kube-scheduler", &[], leases("update"), "system-leader-election");
        check("system:kube-scheduler", &[], leases("list"), "kube-scheduler");
        check("system:kube-controller-manager", &[], resource("get", "", "endpoints", "n"), "endpoint-controller");
        check("system:kube-controller-manager", &[], pods, "kube-controller-manager");
        check("system:serviceaccount:kube-system:x", &account, leases("get"), "system-leader-election");
        check("system:serviceaccount:kube-system:x", &account, pods, "kube-system-service-accounts");
        check("system:serviceaccount:a:x", &account[..1], pods, "service-accounts");
        check("jane", &[], pods, "global-default");
        let path = |path| Attributes { verb: "get", path: Some(path), ..Attributes::default() };
        check("jane", &[], path("/healthz"), "probes");
        check("jane", &[], path("/readyz/ping"), "global-default");
        let anonymous = UserInfo::anonymous();
        assert_eq!(&*classifier.classify(&anonymous, &path("/livez")).unwrap().name, "probes");
        assert!(classifier.classify(&UserInfo::default(), &pods).is_none(), "in no group at all");
    }

    #[test]
    fn rules_match_as_kubernetes_matches_them() {
        let check = |rule: Value, what: Attributes<'_>, expect: bool| {
            let mut rule = rule;
            rule["subjects"] = json!([{"kind": "Group", "group": {"name": "*"}}]);
            let schema = Schema::read(&json!({"spec": {"matchingPrecedence": 1, "rules": [rule]}}));
            let classifier = Classifier::new(vec![Arc::new(schema)]);
            assert_eq!(classifier.classify(&UserInfo::new("x", &[]), &what).is_some(), expect, "{what:?}");
        };
        let rule = |namespaces: Value, cluster: bool| json!({"resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": namespaces, "clusterScope": cluster}]});
        check(rule(json!(["n"]), false), resource("get", "", "pods", "n"), true);
        check(rule(json!(["n"]), false), resource("get", "", "pods/log", "n"), true);
        check(rule(json!(["n"]), false), resource("get", "", "pods/exec", "n"), false);
        check(rule(json!(["n"]), false), resource("list", "", "pods", "n"), false);
        check(rule(json!(["n"]), false), resource("get", "apps", "pods", "n"), false);
        check(rule(json!(["n"]), false), resource("get", "", "pods", "m"), false);
        check(rule(json!(["*"]), false), resource("get", "", "pods", "m"), true);
        check(rule(json!(["*"]), false), resource("get", "", "pods", ""), false);
        check(rule(json!([]), true), resource("get", "", "pods", ""), true);
        check(rule(json!([]), true), resource("get", "", "pods", "n"), false);
        let path = |path| Attributes { verb: "get", path: Some(path), ..Attributes::default() };
        let paths = |url: &str| json!({"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": [url]}]});
        check(paths("/a/*"), path("/a/b"), true);
        check(paths("/a/*"), path("/a"), false);
        check(paths("/a"), path("/a/b"), false);
        check(paths("*"), path("/b"), true);
        check(paths("*"), resource("get", "", "pods", "n"), false);
    }

    #[test]
    fn the_lowest_precedence_wins_and_then_the_name() {
        let schema = |name: &str, precedence: i64, user: &str| {
            let rule = json!({
                "subjects": [{"kind": "User", "user": {"name": user}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            });
            let spec = json!({"matchingPrecedence": precedence, "rules": [rule]});
            Arc::new(Schema::read(&json!({"metadata": {"name": name}, "spec": spec})))
        };
        let all = vec![schema("z", 5, "*"), schema("b", 9, "jane"), schema("a", 9, "jane"), schema("first", 2, "joe")];
        let classifier = Classifier::new(all);
        let what = Attributes { verb: "get", path: Some("/"), ..Attributes::default() };
        let check = |user: &str, expect: &str| {
            assert_eq!(&*classifier.classify(&UserInfo::new(user, &[]), &what).unwrap().name, expect);
        };
        check("jane", "z");
        check("joe", "first");
        let two = Classifier::new(vec![schema("b", 9, "jane"), schema("a", 9, "jane")]);
        assert_eq!(&*two.classify(&UserInfo::new("jane", &[]), &what).unwrap().name, "a");
    }
}
