//! Pod affinity and anti-affinity, from both sides.

use super::{ZONE, bound, passing, pod, with, zoned};
use crate::reference::World;
use serde_json::{Value, json};

fn term(changes: Value) -> Value {
    let mut term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}});
    for (field, value) in changes.as_object().into_iter().flatten() {
        term[field] = value.clone();
    }
    term
}

fn required(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// Machines in the zones a (two), b and none; namespaces a and b of the team red, c of blue, and d without labels.
fn world(pods: Vec<Value>) -> World {
    let namespace = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let namespaces = vec![
        namespace("a", json!({"team": "red"})),
        namespace("b", json!({"team": "red"})),
        namespace("c", json!({"team": "blue"})),
        namespace("d", json!({})),
    ];
    World { nodes: zoned(&["a1", "a2", "b1", "-1"]), pods, namespaces, ..World::default() }
}

fn web(machine: &str) -> Value {
    bound(&format!("web-{machine}"), machine, json!({"app": "web"}), json!({}))
}

fn near(world: &World, terms: Value, expect: &str) {
    let pod = pod(json!({"app": "other"}), required("podAffinity", terms));
    assert_eq!(passing("PodAffinity", world, &pod), expect, "{pod}");
}

fn away(world: &World, terms: Value, expect: &str) {
    let pod = pod(json!({"app": "other"}), required("podAntiAffinity", terms));
    assert_eq!(passing("PodAntiAffinity", world, &pod), expect, "{pod}");
}

#[test]
fn near_is_in_the_same_domain() {
    let world = world(vec![web("a1")]);
    near(&world, json!([]), "a1 a2 b1 -1");
    near(&world, json!([term(json!({}))]), "a1 a2");
    near(&world, json!([term(json!({"topologyKey": "host"}))]), "a1");
    near(&world, json!([term(json!({"topologyKey": "absent"}))]), "");
    near(&world, json!([term(json!({"labelSelector": {"matchLabels": {"app": "db"}}}))]), "");
    near(&world, json!([term(json!({"labelSelector": null}))]), "");
    near(&world, json!([term(json!({"labelSelector": {}}))]), "a1 a2");
}

#[test]
fn all_terms_must_hold() {
    let world = world(vec![web("a1"), bound("both", "b1", json!({"app": "web", "tier": "x"}), json!({}))]);
    let tier = term(json!({"labelSelector": {"matchLabels": {"tier": "x"}}}));
    near(&world, json!([tier]), "b1");
    near(&world, json!([term(json!({})), tier]), "b1");
    near(&world, json!([term(json!({})), term(json!({"topologyKey": "host"}))]), "a1 b1");
    // One pod must match all the terms: two that match one each are not enough.
    let apart = World { pods: vec![web("a1"), bound("x", "a1", json!({"tier": "x"}), json!({}))], ..world.clone() };
    near(&apart, json!([term(json!({})), tier]), "");
}

#[test]
fn the_first_of_a_group_may_start() {
    let first = pod(json!({"app": "web"}), required("podAffinity", json!([term(json!({}))])));
    let check = |pods: Vec<Value>, pod: &Value, expect: &str| {
        assert_eq!(passing("PodAffinity", &world(pods), pod), expect, "{pod}");
    };
    // On any machine that has the key; once somebody is there, only beside it.
    check(vec![], &first, "a1 a2 b1");
    check(vec![web("b1")], &first, "b1");
    check(vec![with(web("b1"), "metadata.namespace", "b".into())], &first, "a1 a2 b1");
    check(vec![with(web("b1"), "status.phase", "Failed".into())], &first, "a1 a2 b1");
    // A matching pod outside every domain is not seen.
    check(vec![web("-1")], &first, "a1 a2 b1");
    // Who does not match its own terms never is the first.
    let stranger = with(first.clone(), "metadata.labels", json!({"app": "db"}));
    check(vec![], &stranger, "");
    let elsewhere = required("podAffinity", json!([term(json!({"namespaces": ["b"]}))]));
    check(vec![], &pod(json!({"app": "web"}), elsewhere), "");
    let two = required("podAffinity", json!([term(json!({})), term(json!({"topologyKey": "host"}))]));
    check(vec![], &pod(json!({"app": "web"}), two), "a1 a2 b1");
}

#[test]
fn a_leaving_pod_still_counts_and_an_ended_one_does_not() {
    let leaving = with(web("a1"), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z".into());
    near(&world(vec![leaving.clone()]), json!([term(json!({}))]), "a1 a2");
    away(&world(vec![leaving]), json!([term(json!({}))]), "b1 -1");
    let ended = with(web("a1"), "status.phase", "Succeeded".into());
    near(&world(vec![ended.clone()]), json!([term(json!({}))]), "");
    away(&world(vec![ended]), json!([term(json!({}))]), "a1 a2 b1 -1");
}

#[test]
fn namespaces() {
    let check = |home: &str, changes: Value, expect: bool| {
        let world = world(vec![with(web("b1"), "metadata.namespace", home.into())]);
        near(&world, json!([term(changes.clone())]), if expect { "b1" } else { "" });
        away(&world, json!([term(changes)]), if expect { "a1 a2 -1" } else { "a1 a2 b1 -1" });
    };
    // "null or empty namespaces list and null namespaceSelector means this pod's namespace".
    check("a", json!({}), true);
    check("b", json!({}), false);
    check("a", json!({"namespaces": []}), true);
    check("b", json!({"namespaces": ["b", "c"]}), true);
    check("a", json!({"namespaces": ["b", "c"]}), false);
    // "An empty selector ({}) matches all namespaces."
    check("d", json!({"namespaceSelector": {}}), true);
    check("d", json!({"namespaces": ["a"], "namespaceSelector": {}}), true);
    check("b", json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), true);
    check("c", json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), false);
    // A selector given means that the own namespace must match it, too.
    check("a", json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), false);
    // "The union of the namespaces listed and the ones selected."
    check("c", json!({"namespaces": ["c"], "namespaceSelector": {"matchLabels": {"team": "red"}}}), true);
    check("b", json!({"namespaces": ["c"], "namespaceSelector": {"matchLabels": {"team": "red"}}}), true);
    check("d", json!({"namespaces": ["c"], "namespaceSelector": {"matchLabels": {"team": "red"}}}), false);
}

#[test]
fn label_keys_compare_with_the_owners_values() {
    let check = |own: Value, theirs: Value, changes: Value, expect: bool| {
        let other = bound("other", "b1", theirs.clone(), json!({}));
        let pod = pod(own.clone(), required("podAntiAffinity", json!([term(changes.clone())])));
        let passing = passing("PodAntiAffinity", &world(vec![other]), &pod);
        assert_eq!(passing == "a1 a2 -1", expect, "{own} meets {theirs} by {changes}: {passing}");
    };
    let web = |version: &str| json!({"app": "web", "version": version});
    let same = json!({"matchLabelKeys": ["version"]});
    let other = json!({"mismatchLabelKeys": ["version"]});
    check(web("1"), web("1"), same.clone(), true);
    check(web("1"), web("2"), same.clone(), false);
    check(web("1"), json!({"app": "web"}), same.clone(), false);
    check(json!({"app": "web"}), web("2"), same, true);
    check(web("1"), web("1"), other.clone(), false);
    check(web("1"), web("2"), other.clone(), true);
    check(web("1"), json!({"app": "web"}), other.clone(), true);
    check(json!({"app": "web"}), web("1"), other, true);
}

#[test]
fn away_is_in_no_shared_domain() {
    let world = world(vec![web("a1")]);
    away(&world, json!([]), "a1 a2 b1 -1");
    away(&world, json!([term(json!({}))]), "b1 -1");
    away(&world, json!([term(json!({"topologyKey": "host"}))]), "a2 b1 -1");
    away(&world, json!([term(json!({"topologyKey": "absent"}))]), "a1 a2 b1 -1");
    away(&world, json!([term(json!({"labelSelector": null}))]), "a1 a2 b1 -1");
    // Any term that is broken is enough.
    let db = term(json!({"labelSelector": {"matchLabels": {"app": "db"}}}));
    away(&world, json!([db, term(json!({"topologyKey": "host"}))]), "a2 b1 -1");
    // A pod outside the domains keeps nobody out.
    away(&self::world(vec![web("-1")]), json!([term(json!({}))]), "a1 a2 b1 -1");
}

#[test]
fn who_is_there_keeps_others_away() {
    let check = |term: Value, home: &str, machine: &str, labels: Value, expect: &str| {
        let guard = bound("guard", machine, json!({"app": "guard"}), required("podAntiAffinity", json!([term])));
        let world = world(vec![with(guard, "metadata.namespace", home.into())]);
        let pod = pod(labels.clone(), json!({}));
        assert_eq!(
            passing("ExistingPodsAntiAffinity", &world, &pod),
            expect,
            "{term} of {home} on {machine}: {labels}"
        );
    };
    let web = json!({"app": "web"});
    check(term(json!({})), "a", "a1", web.clone(), "b1 -1");
    check(term(json!({"topologyKey": "host"})), "a", "a1", web.clone(), "a2 b1 -1");
    check(term(json!({})), "a", "a1", json!({"app": "db"}), "a1 a2 b1 -1");
    check(term(json!({})), "a", "-1", web.clone(), "a1 a2 b1 -1");
    // The namespaces are the guard's to name.
    check(term(json!({})), "b", "a1", web.clone(), "a1 a2 b1 -1");
    check(term(json!({"namespaces": ["a"]})), "b", "a1", web.clone(), "b1 -1");
    check(term(json!({"namespaceSelector": {"matchLabels": {"team": "red"}}})), "c", "a1", web.clone(), "b1 -1");
    check(term(json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}})), "c", "a1", web.clone(), "a1 a2 b1 -1");
    check(term(json!({"namespaceSelector": {}})), "d", "a1", web.clone(), "b1 -1");
    // And so are the values of its label keys; the guard has no version, so that key says nothing.
    check(term(json!({"matchLabelKeys": ["version"]})), "a", "a1", json!({"app": "web", "version": "2"}), "b1 -1");
    let own = json!({"labelSelector": {}, "matchLabelKeys": ["app"]});
    check(term(own.clone()), "a", "a1", web, "a1 a2 b1 -1");
    check(term(own), "a", "a1", json!({"app": "guard"}), "b1 -1");
}

#[test]
fn the_wishes_of_those_who_left_are_over() {
    let guard = bound("guard", "a1", json!({}), required("podAntiAffinity", json!([term(json!({}))])));
    let pod = pod(json!({"app": "web"}), json!({}));
    let check = |guard: Value, expect: &str| {
        assert_eq!(passing("ExistingPodsAntiAffinity", &world(vec![guard]), &pod), expect);
    };
    check(guard.clone(), "b1 -1");
    check(with(guard.clone(), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z".into()), "b1 -1");
    check(with(guard.clone(), "status.phase", "Failed".into()), "a1 a2 b1 -1");
    check(with(guard, "spec.nodeName", "".into()), "a1 a2 b1 -1");
}
