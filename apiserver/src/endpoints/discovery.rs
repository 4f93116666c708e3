//! Discovery: plain (`/api`, `/apis`, `/apis/G`, `/apis/G/V`) and aggregated v2, of our kinds and of what other servers serve. Decides
//! the order of groups and versions; never what is served.

use crate::aggregation::{Remote, Table};
use crate::core::Core;
use crate::custom::rank;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::kinds::{Kind, Subresource};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::sync::Arc;

/// What is served, at one moment, in the order of discovery.
pub struct View<'t> {
    groups: Vec<Group<'t>>,
}

struct Group<'t> {
    name: &'t str,
    /// The preferred one first.
    versions: Vec<Version<'t>>,
}

struct Version<'t> {
    name: &'t str,
    content: Content<'t>,
}

enum Content<'t> {
    Ours(Vec<&'static Kind>),
    /// Of another server.
    Theirs(&'t Arc<Remote>),
}

impl<'t> View<'t> {
    pub fn of(kinds: &[&'static Kind], table: &'t Table) -> Self {
        let mut versions: Vec<(&'t str, Version<'t>)> = Vec::new();
        for remote in table.remotes() {
            versions.push((&remote.group, Version { name: &remote.version, content: Content::Theirs(remote) }));
        }
        for kind in kinds.iter().copied() {
            let own = versions.iter_mut().find(|(group, one)| *group == kind.group && one.name == kind.version);
            match own.map(|(_, one)| &mut one.content) {
                Some(Content::Ours(kinds)) => kinds.push(kind),
                Some(Content::Theirs(_)) => {}
                None => versions.push((kind.group, Version { name: kind.version, content: Content::Ours(vec![kind]) })),
            }
        }
        // As Kubernetes: by what APIServices say, then groups by name and versions by rank.
        versions.sort_by_cached_key(|(group, one)| {
            (Reverse(table.priority(group, one.name).version), Reverse(rank(one.name)))
        });
        let mut groups: Vec<Group<'t>> = Vec::new();
        for (name, version) in versions {
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.versions.push(version),
                None => groups.push(Group { name, versions: vec![version] }),
            }
        }
        groups.sort_by_cached_key(|group| {
            let priorities = group.versions.iter().map(|one| table.priority(group.name, one.name).group);
            (Reverse(priorities.max()), group.name)
        });
        Self { groups }
    }

    fn named(&self) -> impl Iterator<Item = &Group<'t>> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }

    pub fn root_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = ["/api", "/api/v1", "/apis"].map(str::to_owned).to_vec();
        for group in self.named() {
            paths.push(format!("/apis/{}", group.name));
            paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.name)));
        }
        let other = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
        paths.extend(other.map(str::to_owned));
        paths
    }

    pub fn groups(&self) -> Value {
        let groups: Vec<Value> = self.named().map(Group::plain).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    pub fn group(&self, name: &str) -> Option<Value> {
        let mut group = self.named().find(|group| group.name == name)?.plain();
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
        Some(group)
    }

    /// `APIResourceList` of one group and version of ours.
    pub fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let versions = &self.groups.iter().find(|one| one.name == group)?.versions;
        match &versions.iter().find(|one| one.name == version)?.content {
            Content::Ours(kinds) => Some(resources(kinds, group, version)),
            Content::Theirs(_) => None,
        }
    }

    /// `APIGroupDiscoveryList` of these groups.
    pub fn aggregated(&self, which: impl Fn(&str) -> bool) -> Value {
        let items: Vec<Value> = self.groups.iter().filter(|group| which(group.name)).map(Group::aggregated).collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
    }
}

impl Group<'_> {
    fn plain(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|one| json!({"groupVersion": group_version(self.name, one.name), "version": one.name}))
            .collect();
        json!({"name": self.name, "versions": versions, "preferredVersion": versions[0]})
    }

    fn aggregated(&self) -> Value {
        let versions: Vec<Value> = self.versions.iter().map(|one| one.aggregated(self.name)).collect();
        json!({"metadata": {"name": self.name, "creationTimestamp": null}, "versions": versions})
    }
}

impl Version<'_> {
    fn aggregated(&self, group: &str) -> Value {
        let (fresh, resources) = match &self.content {
            Content::Ours(kinds) => (true, kinds.iter().copied().map(aggregated_kind).collect()),
            Content::Theirs(remote) => {
                let seen = remote.seen.load();
                (seen.fresh, their_resources(&seen.resources, group, self.name))
            }
        };
        let freshness = if fresh { "Current" } else { "Stale" };
        json!({"version": self.name, "freshness": freshness, "resources": resources})
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

pub fn core_versions(core: &Core) -> Value {
    let address = core.config.advertise.map_or_else(String::new, |(ip, port)| format!("{ip}:{port}"));
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

fn resources(kinds: &[&'static Kind], group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for kind in kinds {
        let mut row = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind, "verbs": kind.verbs,
        });
        if !kind.short_names.is_empty() {
            row["shortNames"] = kind.short_names.into();
        }
        if !kind.categories.is_empty() {
            row["categories"] = kind.categories.into();
        }
        resources.push(row);
        resources.extend(kind.subresources.iter().map(|sub| subresource(kind, sub)));
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version), "resources": resources})
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut row = json!({
        "name": format!("{}/{}", kind.plural, sub.name), "singularName": "", "namespaced": kind.namespaced, "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if (sub.group, sub.version) != (kind.group, kind.version) {
        row["group"] = sub.group.into();
        row["version"] = sub.version.into();
    }
    row
}

fn aggregated_kind(kind: &'static Kind) -> Value {
    let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
    let own = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut row = json!({
        "resource": kind.plural, "responseKind": own(kind.group, kind.version, kind.kind), "scope": scope,
        "singularResource": kind.singular, "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        row["shortNames"] = kind.short_names.into();
    }
    if !kind.categories.is_empty() {
        row["categories"] = kind.categories.into();
    }
    if !kind.subresources.is_empty() {
        let subresources = kind.subresources.iter();
        row["subresources"] = subresources
            .map(|sub| json!({"subresource": sub.name, "responseKind": own(sub.group, sub.version, sub.kind), "verbs": sub.verbs}))
            .collect();
    }
    row
}

/// Another server's `APIResourceList` as aggregated discovery words it.
fn their_resources(list: &[Value], group: &str, version: &str) -> Vec<Value> {
    let kind = |row: &Value| {
        let or = |field: &str, other: &str| {
            Some(str_at(row, field)).filter(|text| !text.is_empty()).unwrap_or(other).to_owned()
        };
        json!({"group": or("group", group), "version": or("version", version), "kind": str_at(row, "kind")})
    };
    let mut rows: Vec<Value> = Vec::new();
    for row in list {
        let (name, sub) =
            str_at(row, "name").split_once('/').map_or((str_at(row, "name"), None), |(a, b)| (a, Some(b)));
        let scope = if row["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let at = rows.iter().position(|one| one["resource"] == name).unwrap_or(rows.len());
        if at == rows.len() {
            rows.push(json!({"resource": name, "scope": scope, "singularResource": "", "verbs": null}));
        }
        let Some(sub) = sub else {
            rows[at]["responseKind"] = kind(row);
            rows[at]["singularResource"] = str_at(row, "singularName").into();
            for field in ["verbs", "shortNames", "categories"] {
                if !items(row, field).is_empty() {
                    rows[at][field] = row[field].clone();
                }
            }
            continue;
        };
        let sub = json!({"subresource": sub, "responseKind": kind(row), "verbs": row["verbs"]});
        match rows[at]["subresources"].as_array_mut() {
            Some(subresources) => subresources.push(sub),
            None => rows[at]["subresources"] = json!([sub]),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::kinds::KINDS;

    #[test]
    fn groups_come_in_kubernetes_order() {
        let table = Table::default();
        let view = View::of(KINDS, &table);
        let names: Vec<&str> = view.groups.iter().map(|group| group.name).collect();
        assert_eq!(names[..5], ["apiregistration.k8s.io", "", "apps", "events.k8s.io", "authentication.k8s.io"]);
        assert_eq!(names.last(), Some(&"gantry.dev"));
        let autoscaling = view.group("autoscaling").unwrap();
        assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
        assert_eq!(view.groups.iter().map(|group| group.versions.len()).sum::<usize>(), {
            let mut all: Vec<_> = KINDS.iter().map(|kind| (kind.group, kind.version)).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        });
    }

    #[test]
    fn resources_of_another_server_read_like_ours() {
        let list = [
            json!({"name": "nodes", "singularName": "node", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"], "shortNames": ["n"]}),
            json!({"name": "nodes/scale", "singularName": "", "namespaced": false, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]}),
            json!({"name": "lone/sub", "namespaced": true, "kind": "Sub", "verbs": ["create"]}),
        ];
        let expect = json!([
            {"resource": "nodes", "scope": "Cluster", "singularResource": "node", "verbs": ["get", "list"], "shortNames": ["n"],
                "responseKind": {"group": "metrics.k8s.io", "version": "v1beta1", "kind": "NodeMetrics"},
                "subresources": [{"subresource": "scale", "verbs": ["get"], "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]},
            {"resource": "lone", "scope": "Namespaced", "singularResource": "", "verbs": null,
                "subresources": [{"subresource": "sub", "verbs": ["create"], "responseKind": {"group": "metrics.k8s.io", "version": "v1beta1", "kind": "Sub"}}]},
        ]);
        assert_eq!(Value::from(their_resources(&list, "metrics.k8s.io", "v1beta1")), expect);
    }
}
