//! Classes, numbers, and both trees on fake hierarchies in a temporary directory.

use std::fs;

use serde_json::json;

use super::*;
use crate::api::PodSpec;

fn spec(containers: serde_json::Value) -> PodSpec {
    serde_json::from_value(json!({ "containers": containers })).unwrap()
}

fn c(requests: serde_json::Value, limits: serde_json::Value) -> serde_json::Value {
    json!({"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn classes_follow_requests_and_limits() {
    let check = |containers, expect: Class| assert_eq!(qos::class(&spec(containers)), expect);
    check(json!([c(json!({}), json!({}))]), Class::BestEffort);
    check(json!([c(json!({"cpu": "0"}), json!({}))]), Class::BestEffort);
    check(json!([c(json!({}), json!({"cpu": "1", "memory": "1Gi"}))]), Class::Guaranteed);
    check(
        json!([c(json!({"cpu": "1000m", "memory": "1Gi"}), json!({"cpu": "1", "memory": "1024Mi"}))]),
        Class::Guaranteed,
    );
    check(json!([c(json!({"cpu": "500m"}), json!({"cpu": "1", "memory": "1Gi"}))]), Class::Burstable);
    check(json!([c(json!({"cpu": "1"}), json!({})), c(json!({}), json!({}))]), Class::Burstable);
}

#[test]
fn pod_limits_add_up_only_when_every_container_has_one() {
    let check = |containers, expect: (i64, Option<i64>, Option<i64>)| {
        let l = pod_limits(&spec(containers));
        assert_eq!((l.cpu_shares.unwrap(), l.cpu_quota_us, l.memory_bytes), expect);
    };
    check(json!([c(json!({}), json!({}))]), (2, None, None));
    check(json!([c(json!({"cpu": "250m"}), json!({"memory": "50Mi"}))]), (256, None, Some(50 << 20)));
    let both = c(json!({}), json!({"cpu": "500m", "memory": "1Mi"}));
    check(json!([both, both]), (1024, Some(100_000), Some(2 << 20)));
    check(json!([both, c(json!({}), json!({"cpu": "1"}))]), (1536, Some(150_000), None));
}

#[test]
fn memory_pressure_kills_best_effort_first() {
    let burst = spec(json!([c(json!({"memory": "4Gi"}), json!({}))]));
    let adj = |s: &PodSpec| qos::oom_score_adj(s, &s.containers[0], 16 << 30);
    assert_eq!(adj(&spec(json!([c(json!({}), json!({}))]))), 1000);
    assert_eq!(adj(&burst), 750);
    assert_eq!(adj(&spec(json!([c(json!({}), json!({"cpu": "1", "memory": "1Gi"}))]))), -997);
}

#[test]
fn v2_delegates_down_to_the_pod_and_removes_it_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.controllers"), "cpu io memory pids misc\n").unwrap();
    let tree = detect(dir.path());
    let path = pod_path("/gantry", Class::Burstable, "u1");
    let limits = Limits { cpu_shares: Some(1024), cpu_quota_us: Some(50_000), memory_bytes: None };
    tree.ensure(&path, &limits).unwrap();
    tree.ensure(&path, &limits).unwrap();
    let read = |p: &str| fs::read_to_string(dir.path().join(p)).unwrap();
    for delegating in ["", "gantry/", "gantry/burstable/", "gantry/burstable/podu1/"] {
        assert_eq!(read(&format!("{delegating}cgroup.subtree_control")), "+cpu +io +memory +pids", "{delegating}");
    }
    assert_eq!(read("gantry/burstable/podu1/cpu.weight"), "39");
    assert_eq!(read("gantry/burstable/podu1/cpu.max"), "50000 100000");
    assert_eq!(read("gantry/burstable/podu1/memory.max"), "max");
    assert_eq!(pods(tree.as_ref(), "/gantry"), [("u1".to_owned(), path.clone())]);

    // A real cgroup's files vanish with its directory; these do not.
    for file in ["cgroup.subtree_control", "cpu.weight", "cpu.max", "memory.max"] {
        fs::remove_file(dir.path().join("gantry/burstable/podu1").join(file)).unwrap();
    }
    fs::create_dir(dir.path().join("gantry/burstable/podu1/container")).unwrap();
    tree.remove(&path).unwrap();
    tree.remove(&path).unwrap();
    assert_eq!(pods(tree.as_ref(), "/gantry"), []);
}

#[test]
fn v1_writes_its_controllers_and_removes_from_all() {
    let dir = tempfile::tempdir().unwrap();
    for h in ["cpu", "memory", "pids", "devices"] {
        fs::create_dir(dir.path().join(h)).unwrap();
    }
    let tree = detect(dir.path());
    let limits = Limits { cpu_shares: Some(512), cpu_quota_us: None, memory_bytes: Some(4096) };
    tree.ensure("/gantry/podu2", &limits).unwrap();
    fs::create_dir_all(dir.path().join("devices/gantry/podu2/ctr")).unwrap();
    let read = |p: &str| fs::read_to_string(dir.path().join(p)).unwrap();
    assert_eq!(read("cpu/gantry/podu2/cpu.shares"), "512");
    assert_eq!(read("memory/gantry/podu2/memory.limit_in_bytes"), "4096");
    assert!(!dir.path().join("cpu/gantry/podu2/cpu.cfs_quota_us").exists());
    fs::remove_file(dir.path().join("cpu/gantry/podu2/cpu.shares")).unwrap();
    fs::remove_file(dir.path().join("memory/gantry/podu2/memory.limit_in_bytes")).unwrap();
    tree.remove("/gantry/podu2").unwrap();
    assert_eq!(tree.children("/gantry"), Vec::<String>::new());
}

#[test]
fn classes_weigh_what_their_pods_request() {
    let burstable = |cpu: &str| spec(json!([c(json!({ "cpu": cpu }), json!({}))]));
    let others =
        [spec(json!([c(json!({}), json!({}))])), spec(json!([c(json!({}), json!({"cpu": "4", "memory": "1Gi"}))]))];
    let pods = [&[burstable("500m"), burstable("1")], &others[..]].concat();
    let check = |pods: &[PodSpec], shares: [&str; 2], weights: [&str; 2]| {
        let dir = tempfile::tempdir().unwrap();
        let read = |file: &str| {
            ["burstable", "besteffort"]
                .map(|class| fs::read_to_string(dir.path().join(file.replace('*', class))).unwrap())
        };
        fs::create_dir(dir.path().join("cpu")).unwrap();
        weigh_classes(&V1::new(dir.path()), "/gantry/", pods.iter()).unwrap();
        assert_eq!(read("cpu/gantry/*/cpu.shares"), shares);
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory").unwrap();
        weigh_classes(&V2::new(dir.path()), "/gantry", pods.iter()).unwrap();
        assert_eq!(read("gantry/*/cpu.weight"), weights);
    };
    check(&pods, ["1536", "2"], ["59", "1"]);
    check(&pods[1..], ["1024", "2"], ["39", "1"]);
    check(&others, ["2", "2"], ["1", "1"]);
}

#[test]
fn a_busy_group_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("cpu/gantry/podu3")).unwrap();
    fs::write(dir.path().join("cpu/gantry/podu3/busy"), "").unwrap();
    assert!(V1::new(dir.path()).remove("/gantry/podu3").is_err());
}
