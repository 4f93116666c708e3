//! Together, apart, both ways round, across namespaces, and the first of a group.

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::Cluster;

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
    assert_eq!(cluster.refused(filter, &pod), [("b1", Reason::Affinity)]);
    let pod = cluster.pod("p", together(term("web", "host")));
    assert_eq!(cluster.refused(filter, &pod), [("a2", Reason::Affinity), ("b1", Reason::Affinity)]);
}

#[test]
fn the_first_of_a_group_may_start_anywhere_that_has_the_key() {
    let mut cluster = cluster();
    cluster.machine("bare", json!({}));
    let pod = cluster.pod_labelled("p", "web", together(term("web", "zone")));
    assert_eq!(cluster.refused(filter, &pod), [("bare", Reason::Affinity)]);
    let stranger = cluster.pod_labelled("p", "db", together(term("web", "zone")));
    assert_eq!(cluster.refused(filter, &stranger).len(), 4);
}

#[test]
fn apart_holds_both_ways() {
    let mut cluster = cluster();
    cluster.bound_labelled("web", "a1", "web", json!({}));
    let pod = cluster.pod("p", apart(term("web", "zone")));
    assert_eq!(cluster.refused(filter, &pod), [("a1", Reason::AntiAffinity), ("a2", Reason::AntiAffinity)]);
    let pod = cluster.pod("p", apart(term("web", "nowhere")));
    assert_eq!(cluster.refused(filter, &pod), []);
    cluster.bound_labelled("lonely", "b1", "db", apart(term("web", "host")));
    let pod = cluster.pod_labelled("p", "web", json!({}));
    assert_eq!(cluster.refused(filter, &pod), [("b1", Reason::ExistingAntiAffinity)]);
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
    let check = |cluster: &Cluster, extra: Value, refused: usize| {
        assert_eq!(cluster.refused(filter, &cluster.pod("p", with(extra.clone()))).len(), refused, "{extra}");
    };
    check(&cluster, json!({}), 0);
    check(&cluster, json!({"namespaces": ["other"]}), 1);
    check(&cluster, json!({"namespaceSelector": {}}), 1);
    check(&cluster, json!({"namespaceSelector": {"matchLabels": {"team": "y"}}}), 0);
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
    assert_eq!(cluster.scores(score, &pod), [("a1", 100), ("a2", 100), ("b1", 0)]);
    let pod = cluster.pod("p", prefer("podAntiAffinity", "host"));
    assert_eq!(cluster.scores(score, &pod), [("a1", 0), ("a2", 100), ("b1", 100)]);
}
