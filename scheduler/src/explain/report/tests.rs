//! What is said of machines one by one.

use serde_json::json;

use super::*;
use crate::class::Classes;
use crate::plugins::testing::Cluster;

fn report(cluster: &mut Cluster, spec: serde_json::Value) -> Report {
    let info = cluster.snapshot.adopt(cluster.pod("p", spec));
    let class = Classes::default().of(&mut cluster.snapshot, &info, "");
    filters(&cluster.snapshot, &class)
}

#[test]
fn a_machine_that_does_not_match_is_told_with_what_it_would_need() {
    let mut cluster = Cluster::default();
    let room = json!({"allocatable": {"cpu": "4", "pods": "9"}});
    cluster.machine("a", json!({"metadata": {"labels": {"disk": "hdd", "zone": "1"}}, "status": room}));
    let told = |cluster: &mut Cluster, spec| report(cluster, spec).nearest[0].lacks.clone();
    assert_eq!(
        told(&mut cluster, json!({"nodeSelector": {"disk": "ssd", "gpu": "yes", "zone": "1"}})),
        ["without label disk=ssd (it has disk=hdd), label gpu=yes, which the pod asks for"]
    );
    let term = |values: &[&str]| {
        json!({"matchExpressions": [
        {"key": "disk", "operator": "In", "values": values}, {"key": "zone", "operator": "In", "values": ["2"]}]})
    };
    let required = |terms: serde_json::Value| {
        json!({"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    assert_eq!(
        told(&mut cluster, required(json!([term(&["ssd"]), term(&["hdd"])]))),
        ["without zone in (2), which the pod asks for"],
        "the term that it is nearest to"
    );
    assert_eq!(
        told(&mut cluster, required(json!([]))),
        ["without any term of its node affinity, which the pod asks for"]
    );
}

#[test]
fn the_nearest_machine_comes_first_with_all_that_it_lacks() {
    let mut cluster = Cluster::default();
    cluster.machine("small", json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}}));
    cluster.machine(
        "shut",
        json!({"spec": {"unschedulable": true},
        "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "9"}}}),
    );
    cluster.machine("near", json!({"status": {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "9"}}}));
    let wants = json!({"containers": [{"resources": {"requests": {"cpu": "4", "memory": "2Gi"}}}]});
    let report = report(&mut cluster, wants);
    let near = |machine: &str, lacks: &[&str]| Near {
        machine: machine.to_owned(),
        lacks: lacks.iter().map(|lack| (*lack).to_owned()).collect(),
    };
    let few = "short of cpu: wants 4, 1 free (3 more)";
    assert_eq!(
        report.nearest,
        [
            near("near", &["short of cpu: wants 4, 3 free (1 more)"]),
            near("small", &[few, "short of memory: wants 2Gi, 1Gi free (1Gi more)"]),
            near("shut", &["cordoned", few]),
        ]
    );
    let removed: Vec<_> = report.filters.iter().map(|f| (f.filter.as_str(), f.removed)).collect();
    assert_eq!(removed, [("Unschedulable", 1), ("ResourcesFit", 2)]);
}

#[test]
fn a_machine_of_another_kind_is_farther_off_than_a_full_one() {
    let mut cluster = Cluster::default();
    cluster.machine("a", json!({"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}}}));
    cluster.machine(
        "b",
        json!({"metadata": {"labels": {"disk": "ssd"}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}}),
    );
    let wants = json!({"nodeSelector": {"disk": "ssd"},
        "containers": [{"resources": {"requests": {"cpu": "4", "memory": "2Gi"}}}]});
    let nearest: Vec<String> = report(&mut cluster, wants).nearest.into_iter().map(|near| near.machine).collect();
    assert_eq!(nearest, ["b", "a"]);
}

#[test]
fn pods_of_other_namespaces_are_not_named() {
    let cluster = Cluster::default();
    let own = cluster.pod("own", json!({}));
    let namespace = own.namespace.clone();
    let seen = |from: &str| serde_json::to_value(Victims::seen_from(from, [&own].into_iter())).unwrap();
    assert_eq!(seen(&namespace), json!({"victims": ["own"], "victimsElsewhere": 0}));
    assert_eq!(seen("another"), json!({"victims": [], "victimsElsewhere": 1}));
}
