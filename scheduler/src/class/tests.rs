//! A class that was prepared is found again only by pods that every rule still treats so.

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::Cluster;
use crate::schedule::does;

fn rule(kind: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"});
    let rules = match kind {
        "required" => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
        _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}),
    };
    json!({"affinity": {"podAntiAffinity": rules}})
}

/// Whether another pod of app `web` may go beside a pod that carries the rule.
fn may_join(cluster: &mut Cluster, classes: &mut Classes) -> bool {
    let web = cluster.snapshot.adopt(cluster.pod_labelled("new", "web", json!({})));
    let class = classes.of(&mut cluster.snapshot, &web, "");
    let machine = cluster.snapshot.find("m").unwrap();
    does(&cluster.snapshot, &class, machine)
}

#[test]
fn a_rule_that_takes_the_place_of_another_is_another() {
    let (mut cluster, mut classes) = (Cluster::default(), Classes::default());
    cluster.machine("m", json!({"metadata": {"labels": {"host": "m"}}, "status": {"allocatable": {"pods": "9"}}}));
    for (kind, expect) in [("preferred", true), ("required", false), ("preferred", true), ("required", false)] {
        cluster.bound_labelled("carrier", "m", "other", rule(kind));
        assert_eq!(may_join(&mut cluster, &mut classes), expect, "{kind}");
        cluster.snapshot.pod_gone("carrier");
    }
}
