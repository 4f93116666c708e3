//! Skew by zone: what is refused, what counts, and what is preferred.

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::{Cluster, owned};

fn rule(extra: Value) -> Value {
    let mut rule = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    rule.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"topologySpreadConstraints": [rule]})
}

/// Zone a has two matching pods, b one, c none.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for zone in ["a", "b", "c"] {
        cluster.machine(zone, json!({"metadata": {"labels": {"zone": zone}}}));
    }
    for (name, machine) in [("1", "a"), ("2", "a"), ("3", "b")] {
        cluster.bound_labelled(name, machine, "web", json!({}));
    }
    cluster
}

fn skewed(cluster: &mut Cluster, spec: Value) -> Vec<String> {
    let pod = cluster.pod_labelled("p", "web", spec);
    let skew = Reason::Skew("zone".into());
    cluster.refused(check, &pod).into_iter().map(|(m, r)| if r == skew { m } else { format!("{m}?") }).collect()
}

#[test]
fn the_skew_is_against_the_emptiest_domain() {
    let mut cluster = cluster();
    assert_eq!(skewed(&mut cluster, rule(json!({}))), ["a", "b"]);
    assert_eq!(skewed(&mut cluster, rule(json!({"maxSkew": 2}))), ["a"]);
    assert_eq!(skewed(&mut cluster, rule(json!({"maxSkew": 3}))), Vec::<String>::new());
}

#[test]
fn domains_that_the_pod_cannot_use_do_not_count() {
    let mut cluster = cluster();
    let mut spec = rule(json!({}));
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
        [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]}]}}});
    assert_eq!(skewed(&mut cluster, spec.clone()), ["a"], "b is the emptiest of those it can use");
    spec["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    assert_eq!(skewed(&mut cluster, spec), ["a", "b"]);
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let mut cluster = cluster();
    cluster.bound_labelled("4", "b", "web", json!({}));
    cluster.bound_labelled("5", "c", "web", json!({}));
    cluster.bound_labelled("6", "c", "web", json!({}));
    assert_eq!(skewed(&mut cluster, rule(json!({}))), Vec::<String>::new());
    assert_eq!(skewed(&mut cluster, rule(json!({"minDomains": 4}))), ["a", "b", "c"]);
}

#[test]
fn a_machine_without_the_label_is_outside() {
    let mut cluster = cluster();
    cluster.machine("bare", json!({}));
    let pod = cluster.pod_labelled("p", "web", rule(json!({"maxSkew": 9})));
    assert_eq!(cluster.refused(check, &pod), [("bare", Reason::NoDomain("zone".into()))].map(owned));
}

#[test]
fn what_may_be_broken_is_preferred() {
    let mut cluster = cluster();
    let pod = cluster.pod_labelled("p", "web", rule(json!({"whenUnsatisfiable": "ScheduleAnyway"})));
    assert_eq!(cluster.refused(check, &pod), []);
    assert_eq!(cluster.scores(score, &pod), [("a", 0), ("b", 50), ("c", 100)].map(owned));
}
