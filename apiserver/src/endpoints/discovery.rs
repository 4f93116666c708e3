//! Discovery from the kind table: plain (`/api`, `/apis`, `/apis/G`, `/apis/G/V`) and aggregated v2. Decides the order of groups.

use crate::core::Core;
use crate::custom::rank;
use gantry_apimachinery::kinds::{Kind, Subresource};
use serde_json::{Value, json};

/// What is served, at one moment.
pub type Kinds<'k> = &'k [&'static Kind];

/// Groups in the order of their kinds; the core group is empty.
fn group_names(kinds: Kinds<'_>) -> Vec<&'static str> {
    let mut groups: Vec<&str> = Vec::new();
    for kind in kinds {
        if !groups.contains(&kind.group) {
            groups.push(kind.group);
        }
    }
    groups
}

/// The preferred version first.
fn versions(kinds: Kinds<'_>, group: &str) -> Vec<&'static str> {
    let mut versions: Vec<&str> = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.group == group) {
        if !versions.contains(&kind.version) {
            versions.push(kind.version);
        }
    }
    versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
    versions
}

fn kinds_of<'k>(kinds: Kinds<'k>, group: &'k str, version: &'k str) -> impl Iterator<Item = &'static Kind> + 'k {
    kinds.iter().copied().filter(move |kind| kind.group == group && kind.version == version)
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

pub fn root_paths(kinds: Kinds<'_>) -> Vec<String> {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis"].map(str::to_owned).to_vec();
    for group in group_names(kinds).into_iter().filter(|group| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions(kinds, group).iter().map(|version| format!("/apis/{group}/{version}")));
    }
    let other = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    paths.extend(other.map(str::to_owned));
    paths
}

pub fn core_versions(core: &Core) -> Value {
    let address = core.config.advertise.map_or_else(String::new, |(ip, port)| format!("{ip}:{port}"));
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

fn api_group(kinds: Kinds<'_>, group: &str) -> Value {
    let versions: Vec<Value> = versions(kinds, group)
        .iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

pub fn groups(kinds: Kinds<'_>) -> Value {
    let groups = group_names(kinds).into_iter().filter(|group| !group.is_empty());
    let groups: Vec<Value> = groups.map(|group| api_group(kinds, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub fn group(kinds: Kinds<'_>, name: &str) -> Option<Value> {
    (!name.is_empty() && !versions(kinds, name).is_empty()).then(|| {
        let mut group = api_group(kinds, name);
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
        group
    })
}

/// `APIResourceList` of one group and version.
pub fn resources(kinds: Kinds<'_>, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds_of(kinds, group, version) {
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
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version(group, version), "resources": resources});
    (!list["resources"].as_array().is_some_and(Vec::is_empty)).then_some(list)
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

pub fn aggregated_core(kinds: Kinds<'_>) -> Value {
    aggregated(kinds, &[""])
}

pub fn aggregated_groups(kinds: Kinds<'_>) -> Value {
    let groups: Vec<&str> = group_names(kinds).into_iter().filter(|group| !group.is_empty()).collect();
    aggregated(kinds, &groups)
}

fn aggregated(kinds: Kinds<'_>, groups: &[&str]) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let versions: Vec<Value> = versions(kinds, group)
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = kinds_of(kinds, group, version).map(aggregated_kind).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
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
