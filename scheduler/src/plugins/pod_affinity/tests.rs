//! Together, apart, both ways round, across namespaces, and the first of a group.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::{Cluster, owned};

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

fn together(term: Value) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn apart(term: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// Two zones: a with a1 and a2, b with b1.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        cluster.machine(name, json!({"metadata": {"labels": {"zone": zone, "host": name}}}));
    }
    cluster
}

#[test]
fn together_means_the_same_domain() {
    let mut cluster = cluster();
    cluster.bound_labelled("web", "a1", "web", json!({}));
    let pod = cluster.pod("p", together(term("web", "zone")));
    assert_eq!(cluster.refused(check, &pod), [("b1", Reason::Affinity)].map(owned));
    let pod = cluster.pod("p", together(term("web", "host")));
    assert_eq!(cluster.refused(check, &pod), [("a2", Reason::Affinity), ("b1", Reason::Affinity)].map(owned));
}

#[test]
fn the_first_of_a_group_may_start_anywhere_that_has_the_key() {
    let mut cluster = cluster();
    cluster.machine("bare", json!({}));
    let pod = cluster.pod_labelled("p", "web", together(term("web", "zone")));
    assert_eq!(cluster.refused(check, &pod), [("bare", Reason::Affinity)].map(owned));
    let stranger = cluster.pod_labelled("p", "db", together(term("web", "zone")));
    assert_eq!(cluster.refused(check, &stranger).len(), 4);
}

#[test]
fn apart_holds_both_ways() {
    let mut cluster = cluster();
    cluster.bound_labelled("web", "a1", "web", json!({}));
    let pod = cluster.pod("p", apart(term("web", "zone")));
    assert_eq!(cluster.refused(check, &pod), [("a1", Reason::AntiAffinity), ("a2", Reason::AntiAffinity)].map(owned));
    let pod = cluster.pod("p", apart(term("web", "nowhere")));
    assert_eq!(cluster.refused(check, &pod), []);
    cluster.bound_labelled("lonely", "b1", "db", apart(term("web", "host")));
    let pod = cluster.pod_labelled("p", "web", json!({}));
    assert_eq!(cluster.refused(check, &pod), [("b1", Reason::ExistingAntiAffinity)].map(owned));
}

#[test]
fn namespaces_are_named_or_selected() {
    let mut cluster = cluster();
    cluster.snapshot.namespace_applied("other", &BTreeMap::from([("team".to_owned(), "x".to_owned())]));
    cluster.bound_in("other", "web", "a1", "web");
    let with = |extra: Value| {
        let mut term = term("web", "host");
        term.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        apart(term)
    };
    let mut refused = |extra: Value, expect: usize| {
        let pod = cluster.pod("p", with(extra.clone()));
        assert_eq!(cluster.refused(check, &pod).len(), expect, "{extra}");
    };
    refused(json!({}), 0);
    refused(json!({"namespaces": ["other"]}), 1);
    refused(json!({"namespaceSelector": {}}), 1);
    refused(json!({"namespaceSelector": {"matchLabels": {"team": "y"}}}), 0);
    cluster.snapshot.namespace_applied("other", &BTreeMap::from([("team".to_owned(), "y".to_owned())]));
    cluster.snapshot.validate();
    let pod = cluster.pod("p", with(json!({"namespaceSelector": {"matchLabels": {"team": "y"}}})));
    assert_eq!(cluster.refused(check, &pod).len(), 1, "the namespace has the label now");
}

#[test]
fn what_placed_pods_prefer_counts_too() {
    let mut cluster = cluster();
    let prefers = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 10, "podAffinityTerm": term("web", "zone")}]}}});
    cluster.bound_labelled("shy", "a1", "db", prefers);
    cluster.bound_labelled("friend", "b1", "web", together(term("web", "host")));
    let pod = cluster.pod_labelled("p", "web", json!({}));
    assert_eq!(cluster.refused(check, &pod), []);
    assert_eq!(cluster.scores(score, &pod), [("a1", 0), ("a2", 0), ("b1", 100)].map(owned));
    let other = cluster.pod_labelled("p", "other", json!({}));
    assert_eq!(cluster.scores(score, &other), []);
}

#[test]
fn counts_follow_machines_and_pods() {
    let mut cluster = cluster();
    cluster.bound_labelled("web", "a1", "web", json!({}));
    let pod = cluster.pod("p", together(term("web", "zone")));
    assert_eq!(cluster.refused(check, &pod), [("b1", Reason::Affinity)].map(owned));
    cluster.machine("a1", json!({"metadata": {"labels": {"zone": "b"}}}));
    assert_eq!(cluster.refused(check, &pod), [("a2", Reason::Affinity)].map(owned), "its machine moved");
    cluster.bound_labelled("web", "a2", "web", json!({}));
    assert_eq!(cluster.refused(check, &pod), [("a1", Reason::Affinity), ("b1", Reason::Affinity)].map(owned));
    cluster.snapshot.node_deleted("a2");
    cluster.snapshot.validate();
    assert_eq!(cluster.refused(check, &pod).len(), 2, "nobody is near any machine that there is");
    cluster.machine("a2", json!({"metadata": {"labels": {"zone": "b"}}}));
    assert_eq!(cluster.refused(check, &pod), []);
    cluster.snapshot.pod_gone("web");
    cluster.snapshot.validate();
    assert_eq!(cluster.refused(check, &pod).len(), 3);
}

#[test]
fn preferences_add_up() {
    let mut cluster = cluster();
    cluster.bound_labelled("web", "a1", "web", json!({}));
    let prefer = |kind: &str, key: &str| {
        json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 10, "podAffinityTerm": term("web", key)}]}}})
    };
    let pod = cluster.pod("p", prefer("podAffinity", "zone"));
    assert_eq!(cluster.scores(score, &pod), [("a1", 100), ("a2", 100), ("b1", 0)].map(owned));
    let pod = cluster.pod("p", prefer("podAntiAffinity", "host"));
    assert_eq!(cluster.scores(score, &pod), [("a1", 0), ("a2", 100), ("b1", 100)].map(owned));
}
