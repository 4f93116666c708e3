//! The roles and bindings that every cluster has, read from a table. Decides how the table reads; what stands in it is the table's,
//! and what happens to objects that are there already is decided by `reconcile`.

use super::aggregation::{Part, gathered};
use super::rule::Rule;
use crate::kinds::rbac::GROUP;
use crate::kinds::value::items;
use gantry_apimachinery::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, ROLE, ROLE_BINDING};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const TABLE: &str = include_str!("table.txt");
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
/// Kubernetes' label of the objects that it makes itself.
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// Whoever sets it to `false` keeps an object as it is.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// One object that must be there.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultObject {
    pub kind: &'static Kind,
    pub namespace: String,
    pub name: String,
    /// Without apiVersion and kind.
    pub object: Value,
}

/// All of them: roles before the bindings that name them.
pub fn all() -> Vec<DefaultObject> {
    let mut made = parse(TABLE);
    gather(&mut made);
    made.sort_by_key(|one| one.kind == &ROLE_BINDING || one.kind == &CLUSTER_ROLE_BINDING);
    made
}

/// Panics on a table that does not read: it is a part of the program.
fn parse(table: &str) -> Vec<DefaultObject> {
    let mut made: Vec<DefaultObject> = Vec::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with([' ', '\t']) {
            let role = made.iter_mut().rev().find(|one| [&ROLE, &CLUSTER_ROLE].contains(&one.kind));
            let rules = role.and_then(|role| role.object["rules"].as_array_mut());
            rules.expect("a rule stands below its role").push(rule(&words));
            continue;
        }
        match words.as_slice() {
            [] => {}
            [comment, ..] if comment.starts_with('#') => {}
            ["cluster-role", name, groups @ ..] => made.push(cluster_role(name, groups)),
            ["role", namespace, name] => made.push(object(&ROLE, namespace, name, json!({"rules": []}))),
            ["cluster-binding", name, role, subjects] => made.push(binding("", name, role, subjects)),
            ["binding", namespace, name, role, subjects] => made.push(binding(namespace, name, role, subjects)),
            ["controller", name] => {
                let role = format!("system:controller:{name}");
                made.push(binding("", &role, &role, &format!("account:kube-system/{name}")));
                made.push(cluster_role(&role, &[]));
            }
            other => unreachable!("no line of the table of roles: {other:?}"),
        }
    }
    made
}

fn object(kind: &'static Kind, namespace: &str, name: &str, mut content: Value) -> DefaultObject {
    content["metadata"] = json!({
        "name": name, "labels": {BOOTSTRAPPING.0: BOOTSTRAPPING.1}, "annotations": {AUTOUPDATE: "true"},
    });
    if kind.namespaced {
        content["metadata"]["namespace"] = namespace.into();
    }
    DefaultObject { kind, namespace: namespace.to_owned(), name: name.to_owned(), object: content }
}

fn cluster_role(name: &str, groups: &[&str]) -> DefaultObject {
    let label = |group: &str| format!("rbac.authorization.k8s.io/aggregate-to-{group}");
    let mut made = object(&CLUSTER_ROLE, "", name, json!({"rules": []}));
    let mut groups = groups.iter();
    while let Some(group) = groups.next() {
        match group.strip_prefix('+') {
            Some(group) => made.object["metadata"]["labels"][label(group)] = "true".into(),
            None => {
                let group = groups.next().expect("a group follows the =");
                let selector = json!({"matchLabels": {label(group): "true"}});
                made.object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
            }
        }
    }
    made
}

fn rule(words: &[&str]) -> Value {
    let list = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
    let mut verbs: Vec<String> = Vec::new();
    for verb in words[0].split(',') {
        match verb {
            "read" => verbs.extend(READ.map(str::to_owned)),
            "write" => verbs.extend(WRITE.map(str::to_owned)),
            verb => verbs.push(verb.to_owned()),
        }
    }
    verbs.sort();
    let rule = match words[1..] {
        [urls] => Rule { verbs, urls: list(urls), ..Rule::default() },
        [groups, resources, ref names @ ..] => {
            let groups = groups.split(',').map(|group| if group == "core" { "" } else { group });
            Rule {
                verbs,
                groups: groups.map(str::to_owned).collect(),
                resources: list(resources),
                names: names.iter().flat_map(|names| list(names)).collect(),
                ..Rule::default()
            }
        }
        [] => unreachable!("a rule names what it allows"),
    };
    rule.json()
}

fn binding(namespace: &str, name: &str, role: &str, subjects: &str) -> DefaultObject {
    let (kind, role_kind) = match namespace {
        "" => (&CLUSTER_ROLE_BINDING, "ClusterRole"),
        _ => (&ROLE_BINDING, "Role"),
    };
    let subjects: Vec<Value> = subjects.split(',').filter(|subject| *subject != "nobody").map(subject).collect();
    let mut content = json!({"roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role}});
    if !subjects.is_empty() {
        content["subjects"] = subjects.into();
    }
    object(kind, namespace, name, content)
}

fn subject(text: &str) -> Value {
    match text.split_once(':') {
        Some(("user", name)) => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
        Some(("group", name)) => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
        Some(("account", path)) => {
            let (namespace, name) = path.split_once('/').expect("an account has a namespace");
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        _ => unreachable!("no subject of the table of roles: {text}"),
    }
}

/// Gives the aggregating roles what they gather, so that they are complete when they are made. Those that gather from one another
/// need a round each.
fn gather(made: &mut [DefaultObject]) {
    for _ in 0..3 {
        let before = made.to_vec();
        let mut labels: Vec<(&str, BTreeMap<String, String>, &[Value])> = Vec::new();
        for role in before.iter().filter(|one| one.kind == &CLUSTER_ROLE) {
            let pairs = role.object["metadata"]["labels"].as_object().into_iter().flat_map(Map::iter);
            let pairs = pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").to_owned()));
            labels.push((&role.name, pairs.collect(), items(&role.object, "rules")));
        }
        labels.sort_by_key(|(name, ..)| *name);
        let parts: Vec<Part<'_>> = labels.iter().map(|(name, labels, rules)| Part { name, labels, rules }).collect();
        for role in made.iter_mut() {
            if let Some(rules) = gathered(&role.object, &parts) {
                role.object["rules"] = rules.into();
            }
        }
    }
}

#[cfg(test)]
mod tests;
