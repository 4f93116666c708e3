//! The Node's status and the network's file.

use gantry_apimachinery::time::Timestamp;
use serde_json::json;

use super::machine::Pressure;
use super::*;
use crate::runtime::{RuntimeError, RuntimeHealth, RuntimeVersion};

fn seen(runtime: Result<RuntimeHealth, RuntimeError>) -> status::Seen {
    let version = RuntimeVersion { name: "containerd".into(), version: "1".into() };
    status::Seen { runtime, version, images: vec![], pressure: Pressure::default() }
}

fn healthy() -> Result<RuntimeHealth, RuntimeError> {
    Ok(RuntimeHealth { runtime_ready: true, network_ready: true, message: String::new() })
}

fn node(json: Value) -> Node {
    serde_json::from_value(json).unwrap()
}

#[test]
fn ready_needs_a_runtime_and_a_network() {
    let check = |n: &Node, runtime, expect: &str| {
        let s = status::of(n, &Config::default(), &MachineFacts::default(), &seen(runtime), Timestamp::from_secs(9));
        let ready = s.conditions.iter().find(|c| c.kind == "Ready").unwrap();
        assert!(ready.message.starts_with(expect), "{} is not {expect}", ready.message);
    };
    let with_cidr = node(json!({"spec": {"podCIDR": "10.244.1.0/24"}}));
    check(&with_cidr, healthy(), "kubelet is posting ready status");
    check(&Node::default(), healthy(), "container runtime network not ready: the machine has no podCIDR");
    check(&with_cidr, Err(RuntimeError::Unknown("x".into())), "container runtime is down");
    let no_network =
        RuntimeHealth { network_ready: false, message: "cni config uninitialized".into(), ..healthy().unwrap() };
    check(&with_cidr, Ok(no_network), "container runtime network not ready: cni config");
}

#[test]
fn pressure_on_the_disk_says_where_and_how_much_is_missing() {
    let facts = MachineFacts { disk_bytes: 100 << 30, ..MachineFacts::default() };
    let mut seen = seen(healthy());
    seen.pressure.disk = true;
    let config = Config { root: "/data".into(), ..Config::default() };
    let status = status::of(&Node::default(), &config, &facts, &seen, Timestamp::from_secs(9));
    let disk = status.conditions.iter().find(|c| c.kind == "DiskPressure").unwrap();
    assert_eq!(
        (disk.status.as_str(), disk.message.as_str()),
        ("True", "kubelet has disk pressure: less than 5120 MiB (5 %) of the disk of /data are free")
    );
}

#[test]
fn what_others_put_on_the_node_stays_and_nothing_is_written_twice() {
    let facts = MachineFacts { cpus: 2, memory_bytes: 4 << 30, ..MachineFacts::default() };
    let n = node(
        json!({"spec": {"podCIDR": "10.244.1.0/24"}, "status": {"capacity": {"example.com/gpu": "3", "cpu": "64"}}}),
    );
    let s = status::of(&n, &Config::default(), &facts, &seen(healthy()), Timestamp::from_secs(9));
    assert_eq!(s.capacity["example.com/gpu"].value(), 3);
    assert_eq!(s.allocatable["example.com/gpu"].value(), 3);
    assert_eq!((s.capacity["cpu"].milli(), s.allocatable["cpu"].milli()), (2000, 1900));
    let again = Node { status: s.clone(), ..n };
    let t = status::of(&again, &Config::default(), &facts, &seen(healthy()), Timestamp::from_secs(60));
    assert!(status::same(&s, &t));
    assert_eq!(t.conditions[3].last_transition_time, Some(Timestamp::from_secs(9)));
}

#[test]
fn the_network_file_is_written_once_per_range() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { cni_dir: dir.path().join("cni"), root: dir.path().to_owned(), ..Config::default() };
    cni::ensure(&config, "10.244.1.0/24").unwrap();
    let path = config.cni_dir.join("10-gantry.conflist");
    let text: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(text["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.1.0/24");
    cni::ensure(&config, "10.244.1.0/24").unwrap();
}
