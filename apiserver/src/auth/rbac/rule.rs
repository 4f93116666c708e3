//! One rule of a role. Decides which requests it allows, as Kubernetes' RBAC reads it; never whose rule it is.

use crate::auth::authz::Attributes;
use crate::kinds::value::items;
use serde_json::{Map, Value};

/// `rbac.authorization.k8s.io/v1 PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

/// The rules of a Role or ClusterRole.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    items(role, "rules").iter().map(Rule::read).collect()
}

impl Rule {
    pub fn read(rule: &Value) -> Self {
        let list = |name: &str| items(rule, name).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    /// As the API writes it, without the lists that are empty.
    pub fn json(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let said = lists.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(said.map(|(name, list)| (name.to_owned(), list.clone().into())).collect::<Map<_, _>>())
    }

    pub fn allows(&self, what: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, what.verb) {
            return false;
        }
        match what.path {
            Some(path) => self.urls.iter().any(|url| url_covers(url, path)),
            None => {
                has_or_star(&self.groups, what.group)
                    && self.resources.iter().any(|resource| names_resource(resource, what.resource, what.subresource))
                    && (self.names.is_empty() || has(&self.names, what.name))
            }
        }
    }
}

pub fn has(list: &[String], item: &str) -> bool {
    list.iter().any(|have| have == item)
}

pub fn has_or_star(list: &[String], item: &str) -> bool {
    list.iter().any(|have| have == "*" || have == item)
}

/// `*`, `pods`, `pods/log` or `*/scale` against a resource and its subresource (empty for the resource itself).
fn names_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    match (rule, rule.split_once('/')) {
        ("*", _) => true,
        (_, None) => subresource.is_empty() && rule == resource,
        (_, Some((of, sub))) => !subresource.is_empty() && sub == subresource && (of == "*" || of == resource),
    }
}

/// `/healthz`, or everything below with a `*` at the end.
pub fn url_covers(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix('*').is_some_and(|start| path.starts_with(start.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(rule: Value, expect: bool, what: Attributes<'_>) {
        assert_eq!(Rule::read(&rule).allows(&what), expect, "{rule} {what:?}");
    }

    fn on<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Attributes<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes { verb, group, resource, subresource, name, ..Attributes::default() }
    }

    #[test]
    fn a_rule_names_verbs_groups_and_resources() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
        check(pods.clone(), true, on("get", "", "pods", "a"));
        check(pods.clone(), true, on("get", "", "pods/log", "a"));
        check(pods.clone(), false, on("get", "", "pods/exec", "a"));
        check(pods.clone(), false, on("get", "", "nodes/log", "a"));
        check(pods.clone(), false, on("watch", "", "pods", ""));
        check(pods.clone(), false, on("get", "apps", "pods", "a"));
        check(pods, false, on("get", "", "secrets", "a"));
        check(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), true, on("x", "y", "z/w", ""));
        check(
            json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale"]}),
            true,
            on("get", "apps", "a/scale", ""),
        );
        check(
            json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale"]}),
            false,
            on("get", "apps", "a", ""),
        );
        check(json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/"]}), false, on("get", "apps", "a", ""));
        check(json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["a/*"]}), false, on("get", "apps", "a/b", ""));
        check(json!({"verbs": ["get"], "apiGroups": ["*"]}), false, on("get", "apps", "a", ""));
    }

    #[test]
    fn names_narrow_a_rule() {
        let one = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        check(one.clone(), true, on("get", "", "pods", "a"));
        check(one.clone(), false, on("get", "", "pods", "b"));
        check(one, false, on("list", "", "pods", ""));
    }

    #[test]
    fn paths_are_whole_or_end_in_a_star() {
        let path =
            |verb: &'static str, path: &'static str| Attributes { verb, path: Some(path), ..Attributes::default() };
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/version", "/apis/*", "/z**"]});
        check(rule.clone(), true, path("get", "/version"));
        check(rule.clone(), true, path("get", "/apis/apps/v1"));
        check(rule.clone(), true, path("get", "/apis/"));
        check(rule.clone(), false, path("get", "/api"));
        check(rule.clone(), true, path("get", "/zbc"));
        check(rule.clone(), false, path("post", "/version"));
        check(rule.clone(), false, path("get", "/version/x"));
        check(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}), true, path("delete", "/x"));
        // A path is no resource and the other way round.
        check(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), false, path("get", "/x"));
        check(rule, false, on("get", "", "pods", ""));
    }

    #[test]
    fn a_rule_survives_reading_and_writing() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        assert_eq!(Rule::read(&rule).json(), rule);
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/x"]});
        assert_eq!(Rule::read(&rule).json(), rule);
    }
}
