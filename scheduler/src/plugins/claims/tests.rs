//! Where pods with claims may go, rule by rule.

use serde_json::{Value, json};

use super::*;
use crate::plugins::Trouble;
use crate::plugins::testing::Cluster;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Machines `a` and `b`, each in the zone of its name.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for name in ["a", "b"] {
        cluster.machine(name, json!({"metadata": {"labels": {"host": name, ZONE: name}}}));
    }
    cluster
}

fn mounts(claims: &[&str]) -> Value {
    let volumes: Vec<_> = claims.iter().map(|c| json!({"persistentVolumeClaim": {"claimName": c}})).collect();
    json!({"volumes": volumes})
}

fn on(host: &str) -> Value {
    let requirement = json!({"key": "host", "operator": "In", "values": [host]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
}

/// A class whose claims wait for a pod.
fn late(cluster: &mut Cluster, name: &str, provisioner: &str, allowed: Value) {
    let class = json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": allowed});
    cluster.storage_class(name, class);
}

fn of_class(class: &str, gib: i64) -> Value {
    json!({"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": format!("{gib}Gi")}}})
}

/// A volume of a class on one machine.
fn local(cluster: &mut Cluster, name: &str, class: &str, gib: i64, host: &str) {
    let spec = json!({"storageClassName": class, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": format!("{gib}Gi")}, "nodeAffinity": on(host)});
    cluster.volume(name, spec, json!({}));
}

fn refused(cluster: &mut Cluster, claims: &[&str]) -> Vec<(String, Reason)> {
    let pod = cluster.pod("p", mounts(claims));
    cluster.refused(check, &pod)
}

fn no(machine: &str, reason: Reason) -> (String, Reason) {
    (machine.to_owned(), reason)
}

fn both(reason: &Reason) -> Vec<(String, Reason)> {
    vec![no("a", reason.clone()), no("b", reason.clone())]
}

fn written(cluster: &Cluster, claims: &[&str], machine: &str) -> Option<Vec<VolumeWrite>> {
    let pod = cluster.pod("p", mounts(claims));
    writes(&cluster.snapshot, &pod.claims, cluster.snapshot.find(machine).unwrap())
}

#[test]
fn only_pods_with_claims_are_asked() {
    let mut cluster = cluster();
    let pod = cluster.pod("p", json!({"volumes": [{"emptyDir": {}}]}));
    assert_eq!(cluster.refused(check, &pod), []);
}

#[test]
fn what_is_wrong_with_a_claim_is_told() {
    let check = |spec: Option<Value>, meta: Value, trouble: Trouble| {
        let mut cluster = cluster();
        if let Some(spec) = spec {
            cluster.claim("c", spec, meta);
        }
        assert_eq!(refused(&mut cluster, &["c"]), both(&Reason::Claim("c".into(), trouble)));
    };
    check(None, json!({}), Trouble::Missing);
    check(Some(json!({})), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), Trouble::Deleting);
    check(Some(json!({})), json!({}), Trouble::Unbound);
    check(Some(of_class("unknown", 1)), json!({}), Trouble::Unbound);
    check(Some(json!({"volumeName": "v"})), json!({}), Trouble::NoVolume);
}

#[test]
fn a_claim_that_names_its_volume_is_bound_only_when_that_is_complete() {
    let mut cluster = cluster();
    cluster.volume("v", json!({}), json!({}));
    let claim = |meta: Value, phase: &str| {
        let claim = json!({"metadata": meta, "spec": {"volumeName": "v"}, "status": {"phase": phase}});
        serde_json::from_value(claim).unwrap()
    };
    let named = json!({"namespace": "ns", "name": "c"});
    let unbound = both(&Reason::Claim("c".into(), Trouble::Unbound));
    cluster.snapshot.claim_applied(&claim(named.clone(), "Pending"));
    assert_eq!(refused(&mut cluster, &["c"]), unbound);
    cluster.snapshot.claim_applied(&claim(named.clone(), "Bound"));
    assert_eq!(refused(&mut cluster, &["c"]), []);
    cluster.snapshot.claim_applied(&claim(named.clone(), "Lost"));
    assert_eq!(refused(&mut cluster, &["c"]), both(&Reason::Claim("c".into(), Trouble::Lost)));
    let completed = json!({"namespace": "ns", "name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
    cluster.snapshot.claim_applied(&claim(completed, "Pending"));
    assert_eq!(refused(&mut cluster, &["c"]), []);
}

#[test]
fn the_claim_of_an_ephemeral_volume_is_the_pods_own() {
    let mut cluster = cluster();
    cluster.volume("v", json!({}), json!({}));
    let pod = cluster.pod("p", json!({"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}));
    let trouble = |trouble| both(&Reason::Claim("p-data".into(), trouble));
    assert_eq!(cluster.refused(check, &pod), trouble(Trouble::Missing));
    cluster.claim("p-data", json!({"volumeName": "v"}), json!({}));
    assert_eq!(cluster.refused(check, &pod), trouble(Trouble::Foreign));
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]);
    cluster.claim("p-data", json!({"volumeName": "v"}), json!({"ownerReferences": owner}));
    assert_eq!(cluster.refused(check, &pod), []);
}

#[test]
fn a_bound_volume_says_where() {
    let check = |spec: Value, labels: Value, expect: &[(&str, Reason)]| {
        let mut cluster = cluster();
        cluster.machine("nowhere", json!({"metadata": {"labels": {"host": "a"}}}));
        cluster.claim("c", json!({"volumeName": "v"}), json!({}));
        cluster.volume("v", spec, labels);
        let expect: Vec<_> = expect.iter().map(|(machine, reason)| no(machine, reason.clone())).collect();
        assert_eq!(refused(&mut cluster, &["c"]), expect);
    };
    let affinity = Reason::VolumeAffinity("c".into());
    let zone = Reason::VolumeZone("c".into());
    check(json!({}), json!({}), &[]);
    check(json!({"nodeAffinity": on("a")}), json!({}), &[("b", affinity)]);
    check(json!({}), json!({ZONE: "a"}), &[("b", zone.clone())]);
    check(json!({}), json!({ZONE: "a__b"}), &[]);
    check(json!({}), json!({"failure-domain.beta.kubernetes.io/zone": "b"}), &[("a", zone.clone())]);
    check(json!({}), json!({"topology.kubernetes.io/region": "r"}), &[("a", zone.clone()), ("b", zone)]);
}

#[test]
fn a_late_claim_takes_a_volume_that_is_there() {
    let mut cluster = cluster();
    late(&mut cluster, "local", "kubernetes.io/no-provisioner", json!([]));
    cluster.claim("c", of_class("local", 10), json!({}));
    let none = |machine: &str| no(machine, Reason::NoVolume("c".into()));
    assert_eq!(refused(&mut cluster, &["c"]), [none("a"), none("b")]);
    local(&mut cluster, "small", "local", 9, "a");
    local(&mut cluster, "other", "slow", 10, "a");
    assert_eq!(refused(&mut cluster, &["c"]), [none("a"), none("b")], "too small, or of another class");
    local(&mut cluster, "large", "local", 20, "a");
    local(&mut cluster, "right", "local", 10, "a");
    assert_eq!(refused(&mut cluster, &["c"]), [none("b")]);
    let Some(writes) = written(&cluster, &["c"], "a") else { panic!("it waits") };
    let take = VolumeWrite::Take {
        volume: "right".into(),
        revision: String::new(),
        claim: "ns/c".into(),
        uid: "c".to_owned(),
        is_reserved: false,
    };
    assert_eq!(writes, [take], "the smallest that is large enough");
    assert_eq!(written(&cluster, &["c"], "b"), None, "it cannot go there");
}

#[test]
fn a_volume_must_be_of_the_kind_that_is_asked_for() {
    let check = |claim: Value, volume: Value, labels: Value, fits: bool| {
        let mut cluster = cluster();
        late(&mut cluster, "local", "kubernetes.io/no-provisioner", json!([]));
        let with = |mut spec: Value, more: &Value| {
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        cluster.claim("c", with(of_class("local", 1), &claim), json!({}));
        let spec = json!({"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}});
        cluster.volume("v", with(spec, &volume), labels);
        assert_eq!(refused(&mut cluster, &["c"]).is_empty(), fits, "{claim} {volume}");
    };
    check(json!({}), json!({}), json!({}), true);
    check(json!({"accessModes": ["ReadWriteMany"]}), json!({}), json!({}), false);
    check(json!({"volumeMode": "Block"}), json!({}), json!({}), false);
    check(json!({"volumeMode": "Block"}), json!({"volumeMode": "Block"}), json!({}), true);
    let fast = json!({"selector": {"matchLabels": {"disk": "fast"}}});
    check(fast.clone(), json!({}), json!({"disk": "slow"}), false);
    check(fast, json!({}), json!({"disk": "fast"}), true);
    let taken = json!({"claimRef": {"namespace": "ns", "name": "other", "uid": "o"}});
    check(json!({}), taken, json!({}), false);
    let again = json!({"claimRef": {"namespace": "ns", "name": "c", "uid": "before"}});
    check(json!({}), again, json!({}), false);
    check(json!({}), json!({"claimRef": {"namespace": "ns", "name": "c", "uid": "c"}}), json!({}), true);
}

#[test]
fn two_claims_do_not_get_one_volume() {
    let mut cluster = cluster();
    late(&mut cluster, "local", "kubernetes.io/no-provisioner", json!([]));
    cluster.claim("large", of_class("local", 10), json!({}));
    cluster.claim("small", of_class("local", 1), json!({}));
    local(&mut cluster, "v10", "local", 10, "a");
    let none = |name: &str| Reason::NoVolume(name.into());
    let expect = [no("a", none("large")), no("b", none("small"))];
    assert_eq!(refused(&mut cluster, &["large", "small"]), expect);
    local(&mut cluster, "v1", "local", 1, "a");
    assert_eq!(refused(&mut cluster, &["large", "small"]), [no("b", none("small"))]);
    assert_eq!(written(&cluster, &["large", "small"], "a").unwrap().len(), 2);
}

#[test]
fn a_volume_is_made_where_the_class_allows_it() {
    let mut cluster = cluster();
    let allowed = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]);
    late(&mut cluster, "made", "csi.example.com", allowed);
    cluster.claim("c", of_class("made", 1), json!({"resourceVersion": "7"}));
    assert_eq!(refused(&mut cluster, &["c"]), [no("b", Reason::NoVolume("c".into()))]);
    let select = VolumeWrite::Select {
        claim: "ns/c".into(),
        uid: "c".to_owned(),
        revision: "7".to_owned(),
        node: "a".to_owned(),
    };
    assert_eq!(written(&cluster, &["c"], "a"), Some(vec![select]));
}

#[test]
fn a_claim_whose_volume_is_being_made_pins_the_pod() {
    let mut cluster = cluster();
    late(&mut cluster, "made", "csi.example.com", json!([]));
    let selected = json!({"annotations": {"volume.kubernetes.io/selected-node": "b"}});
    cluster.claim("c", of_class("made", 1), selected);
    assert_eq!(refused(&mut cluster, &["c"]), [no("a", Reason::Elsewhere("c".into(), "b".into()))]);
    assert_eq!(written(&cluster, &["c"], "b"), Some(vec![]), "it waits, and nothing is to be written");
    cluster.claim("c", of_class("made", 1), json!({}));
    assert_eq!(refused(&mut cluster, &["c"]), [], "the provisioner gave up: anywhere again");
    cluster.volume("v", json!({"claimRef": {"namespace": "ns", "name": "c"}, "nodeAffinity": on("b")}), json!({}));
    cluster.claim("c", json!({"volumeName": "v"}), json!({}));
    assert_eq!(refused(&mut cluster, &["c"]), [no("a", Reason::VolumeAffinity("c".into()))]);
    assert_eq!(written(&cluster, &["c"], "b"), None, "it is bound");
}
