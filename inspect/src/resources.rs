//! What the server serves, and what people call it: `po`, `pod`, `pods`, `Pod`, `deployments.apps`, `pods.v1.`, a category is not one.

use crate::Misused;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Resources(Vec<Resource>);

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

impl Resource {
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let within =
            if self.namespaced && !namespace.is_empty() { format!("/namespaces/{namespace}") } else { String::new() };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("{root}/{}{within}/{}{name}", self.version, self.plural)
    }

    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// `deployments.apps`, `pods`.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn is_called(&self, name: &str) -> bool {
        let own = [&self.plural, &self.singular, &self.kind];
        own.into_iter().chain(&self.short_names).any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl Resources {
    /// Takes in an APIGroupDiscoveryList; the first version of a group is the one that people mean.
    pub fn add(&mut self, list: &Value) {
        for group in list["items"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                for resource in version["resources"].as_array().into_iter().flatten() {
                    self.0.push(Resource {
                        group: text(&group["metadata"], "name"),
                        version: text(version, "version"),
                        plural: text(resource, "resource"),
                        singular: text(resource, "singularResource"),
                        kind: text(&resource["responseKind"], "kind"),
                        short_names: texts(&resource["shortNames"]),
                        namespaced: resource["scope"] == "Namespaced",
                        verbs: texts(&resource["verbs"]),
                    });
                }
            }
        }
    }

    /// In the order of discovery, so that a name that two groups have is the first one's.
    pub fn find(&self, name: &str) -> Result<&Resource, Misused> {
        let (name, group, version) = parts(name);
        let of_group = |known: &&Resource| match (group, version) {
            (None, _) => true,
            (Some(group), Some(version)) => known.group == group && known.version == version,
            (Some(group), None) => {
                known.group == group || (!group.is_empty() && known.group.starts_with(&format!("{group}.")))
            }
        };
        self.0.iter().filter(of_group).find(|known| known.is_called(name)).ok_or_else(|| {
            Misused(format!("the server has no resource type {name:?}: `kubectl api-resources` lists what it has"))
        })
    }

    /// By an object's own `apiVersion` and `kind`.
    pub fn of(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.0.iter().find(|known| known.group == group && known.version == version && known.kind == kind)
    }

    /// Every kind that can be listed, once, in its first version.
    pub fn listed(&self, namespaced: bool) -> Vec<&Resource> {
        let mut out: Vec<&Resource> = Vec::new();
        for resource in self.0.iter().filter(|resource| resource.can("list") && resource.namespaced == namespaced) {
            if !out.iter().any(|known| known.group == resource.group && known.plural == resource.plural) {
                out.push(resource);
            }
        }
        out
    }
}

/// `name`, `name.group` or `name.version.group`.
fn parts(name: &str) -> (&str, Option<&str>, Option<&str>) {
    let Some((name, rest)) = name.split_once('.') else { return (name, None, None) };
    match rest.split_once('.') {
        Some((version, group)) if is_version(version) => (name, Some(group), Some(version)),
        None if is_version(rest) => (name, Some(""), Some(rest)),
        _ => (name, Some(rest), None),
    }
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub fn served() -> Resources {
        let resource = |plural: &str, singular: &str, kind: &str, short: &str, scope: &str| {
            json!({"resource": plural, "singularResource": singular, "responseKind": {"kind": kind}, "shortNames": [short],
                   "scope": scope, "verbs": ["get", "list"]})
        };
        let mut all = Resources::default();
        all.add(&json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
            resource("pods", "pod", "Pod", "po", "Namespaced"),
            resource("events", "event", "Event", "ev", "Namespaced"),
            resource("nodes", "node", "Node", "no", "Cluster")]}]}]}));
        all.add(&json!({"items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource("deployments", "deployment", "Deployment", "deploy", "Namespaced")]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [resource("events", "event", "Event", "ev", "Namespaced")]}]},
            {"metadata": {"name": "a.io"}, "versions": [
                {"version": "v2", "resources": [resource("things", "thing", "Thing", "th", "Cluster")]},
                {"version": "v1", "resources": [resource("things", "thing", "Thing", "th", "Cluster")]}]}]}));
        all
    }

    #[test]
    fn names_are_those_that_people_use() {
        let all = served();
        let rows = [
            ("po", "/api/v1/namespaces/n/pods/x"),
            ("Pod", "/api/v1/namespaces/n/pods/x"),
            ("pods.v1", "/api/v1/namespaces/n/pods/x"),
            ("deploy.apps", "/apis/apps/v1/namespaces/n/deployments/x"),
            ("deployments.v1.apps", "/apis/apps/v1/namespaces/n/deployments/x"),
            ("ev", "/api/v1/namespaces/n/events/x"),
            ("events.events", "/apis/events.k8s.io/v1/namespaces/n/events/x"),
            ("thing", "/apis/a.io/v2/things/x"),
            ("things.v1.a.io", "/apis/a.io/v1/things/x"),
            ("node", "/api/v1/nodes/x"),
        ];
        for (name, path) in rows {
            assert_eq!(all.find(name).unwrap().path("n", "x"), path, "{name}");
        }
        for wrong in ["pot", "pods.apps", "things.v3.a.io", ""] {
            assert!(all.find(wrong).unwrap_err().0.contains("no resource type"), "{wrong}");
        }
    }

    #[test]
    fn everything_is_listed_once() {
        let all = served();
        let names: Vec<_> = all.listed(false).iter().map(|resource| resource.full_name()).collect();
        assert_eq!(names, ["nodes", "things.a.io"]);
        assert_eq!(all.of("apps/v1", "Deployment").unwrap().plural, "deployments");
        assert!(all.of("apps/v2", "Deployment").is_none());
    }
}
