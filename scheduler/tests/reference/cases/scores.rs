//! Preferences between pods, from both sides.

use super::{ZONE, bound, pod, with, zoned};
use crate::reference::{World, scores};
use serde_json::{Value, json};

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

fn preferred(kind: &str, terms: &[(i64, Value)]) -> Value {
    let terms: Vec<Value> =
        terms.iter().map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term})).collect();
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn required(kind: &str, terms: &[Value]) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// The raw sums on a1, a2, b1 and the machine without a zone.
fn check(pods: Vec<Value>, spec: Value, expect: [i64; 4]) {
    let names = ["a1", "a2", "b1", "-1"];
    let world = World { nodes: zoned(&names), pods, ..World::default() };
    let pod = pod(json!({"app": "web"}), spec);
    let raw = scores(&world, &pod, &names.map(str::to_owned));
    assert_eq!(names.map(|name| raw["InterPodAffinity"][name]), expect, "{pod} among {:?}", world.pods);
}

fn existing(machine: &str, spec: Value) -> Value {
    bound(&format!("on-{machine}"), machine, json!({"app": "db"}), spec)
}

#[test]
fn own_preferences_count_each_pod_that_they_find() {
    let like = preferred("podAffinity", &[(10, term("db", ZONE))]);
    let none = || json!({});
    check(vec![], like.clone(), [0, 0, 0, 0]);
    check(vec![existing("a1", none())], like.clone(), [10, 10, 0, 0]);
    check(vec![existing("a1", none()), existing("a2", none()), existing("b1", none())], like.clone(), [20, 20, 10, 0]);
    check(vec![existing("-1", none())], like.clone(), [0, 0, 0, 0]);
    let dislike = preferred("podAntiAffinity", &[(10, term("db", "host"))]);
    check(vec![existing("a1", none()), existing("-1", none())], dislike, [-10, 0, 0, -10]);
    let two = preferred("podAffinity", &[(10, term("db", ZONE)), (1, term("db", "host")), (100, term("cache", ZONE))]);
    check(vec![existing("a1", none())], two, [11, 10, 0, 0]);
    // Ended pods and other namespaces are not meant.
    check(vec![with(existing("a1", none()), "status.phase", "Failed".into())], like.clone(), [0, 0, 0, 0]);
    check(vec![with(existing("a1", none()), "metadata.namespace", "b".into())], like, [0, 0, 0, 0]);
}

#[test]
fn others_preferences_count_the_same() {
    let like = |app: &str| preferred("podAffinity", &[(7, term(app, ZONE))]);
    check(vec![existing("a1", like("web"))], json!({}), [7, 7, 0, 0]);
    check(vec![existing("a1", like("db"))], json!({}), [0, 0, 0, 0]);
    let dislike = preferred("podAntiAffinity", &[(7, term("web", "host"))]);
    check(vec![existing("a1", dislike.clone())], json!({}), [-7, 0, 0, 0]);
    // Their namespace is the one that the term means.
    check(vec![with(existing("a1", dislike), "metadata.namespace", "b".into())], json!({}), [0, 0, 0, 0]);
    let both = preferred("podAffinity", &[(3, term("db", ZONE))]);
    check(vec![existing("a1", like("web"))], both, [10, 10, 0, 0]);
}

#[test]
fn others_required_affinity_weighs_one() {
    check(vec![existing("a1", required("podAffinity", &[term("web", ZONE)]))], json!({}), [1, 1, 0, 0]);
    let two = required("podAffinity", &[term("web", ZONE), term("web", "host"), term("db", ZONE)]);
    check(vec![existing("a1", two)], json!({}), [2, 1, 0, 0]);
    // Required anti-affinity filters and adds nothing; the own required terms add nothing either.
    check(vec![existing("a1", required("podAntiAffinity", &[term("web", ZONE)]))], json!({}), [0, 0, 0, 0]);
    check(vec![existing("a1", json!({}))], required("podAffinity", &[term("db", ZONE)]), [0, 0, 0, 0]);
}
