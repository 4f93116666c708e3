//! What a hollow machine says of itself: its Node as the agent registers and reports it, and its addresses. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::time::Timestamp;
use gantry_rehearsal::{FleetProfile, Machine};
use serde_json::{Value, json};

use crate::api::node::{Node, NodeStatus};
use crate::config::Config;
use crate::node::{self, MachineFacts, status};
use crate::runtime::{ImageSeen, RuntimeHealth, RuntimeVersion};

/// Nobody routes these: 198.18.0.0/15 is set aside for measurements of networks, 100.64.0.0/10 for what is behind carriers.
const MACHINES: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const PODS: u32 = u32::from_be_bytes([100, 64, 0, 0]);

/// Machines with numbers below this have addresses of their own.
pub const MOST: u32 = 1 << 17;

pub fn machine_ip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(MACHINES + number % MOST)
}

/// The address of a machine's n-th pod: in the Node's own range, if it was given one.
pub fn pod_ip(number: u32, pod_cidr: Option<&str>, nth: u32) -> Ipv4Addr {
    let own = pod_cidr.and_then(|cidr| cidr.split_once('/')?.0.parse::<Ipv4Addr>().ok());
    let base = own.map_or(PODS + number % (1 << 14) * 256, u32::from);
    Ipv4Addr::from(base + 2 + nth % 253)
}

fn config(machine: Machine, profile: &FleetProfile) -> Config {
    let class = machine.class(profile);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Config {
        node_name: machine.name(profile),
        node_ips: vec![IpAddr::V4(machine_ip(machine.number))],
        node_labels: machine.labels(profile),
        // There is no network to wait for.
        external_cni: true,
        max_pods: class.pods,
        reserved_milli_cpu: signed(class.reserved_milli_cpu),
        reserved_memory_bytes: signed(class.reserved_memory_bytes),
        ..Config::default()
    }
}

/// The status now; `since` is when its conditions became what they are.
pub fn status(machine: Machine, profile: &FleetProfile, since: Timestamp, now: Timestamp) -> NodeStatus {
    let class = machine.class(profile);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let id = format!("hollow-{:05}", machine.number);
    let facts = MachineFacts {
        cpus: signed(class.milli_cpu / 1_000),
        memory_bytes: signed(class.memory_bytes),
        disk_bytes: signed(class.disk_bytes),
        kernel: "6.18.0-hollow".into(),
        os_image: "Hollow".into(),
        boot_id: id.clone(),
        machine_id: id.clone(),
        system_uuid: id,
        hugepages: vec![],
    };
    let image = |one: &gantry_rehearsal::fleet::Image| ImageSeen {
        tags: vec![one.name.clone()],
        size_bytes: one.size_bytes,
        ..ImageSeen::default()
    };
    let seen = status::Seen {
        runtime: Ok(RuntimeHealth { runtime_ready: true, network_ready: true, message: String::new() }),
        version: RuntimeVersion { name: "hollow".into(), version: env!("CARGO_PKG_VERSION").into() },
        images: class.images.iter().map(image).collect(),
        pressure: node::Pressure::default(),
    };
    let config = config(machine, profile);
    // As a device plugin would have put them there.
    let gpus = class.gpus.iter().filter_map(|gpus| Some((gpus.resource.clone(), count(gpus.count)?)));
    let devices = NodeStatus { capacity: gpus.collect::<BTreeMap<_, _>>(), ..NodeStatus::default() };
    let before = status::of(&Node { status: devices, ..Node::default() }, &config, &facts, &seen, since);
    status::of(&Node { status: before, ..Node::default() }, &config, &facts, &seen, now)
}

fn count(number: u32) -> Option<Quantity> {
    Quantity::parse(&number.to_string()).ok()
}

/// The Node as it registers.
pub fn registration(machine: Machine, profile: &FleetProfile, now: Timestamp) -> Value {
    let config = config(machine, profile);
    let mut node = node::registration(&config, &status(machine, profile, now, now));
    let taints = &machine.class(profile).taints;
    if !taints.is_empty() {
        let taint = |t: &gantry_rehearsal::fleet::Taint| json!({"key": t.key, "value": t.value, "effect": t.effect});
        node["spec"]["taints"] = taints.iter().map(taint).collect();
    }
    node
}

/// What brings an older Node's labels up to date.
pub fn labels(machine: Machine, profile: &FleetProfile) -> Value {
    json!({"metadata": {"labels": node::labels(&config(machine, profile))}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_registers_with_its_class_and_place() {
        let profile = FleetProfile::built_in();
        let machine = Machine { number: 4, class: 3, zone: 1, rack: 0 };
        let node = registration(machine, &profile, Timestamp::from_secs(1_700_000_000));
        assert_eq!(node["metadata"]["name"], "hollow-00004");
        let labels = &node["metadata"]["labels"];
        for (key, value) in [
            ("kubernetes.io/hostname", "hollow-00004"),
            ("topology.kubernetes.io/zone", "zone-2"),
            ("gantry.dev/rack", "zone-2-rack-01"),
            ("gantry.dev/machine-class", "gpu"),
            ("node.kubernetes.io/instance-type", "gpu-8"),
        ] {
            assert_eq!(labels[key], value, "{key}");
        }
        let status = &node["status"];
        assert_eq!((&status["capacity"]["cpu"], &status["allocatable"]["cpu"]), (&json!("96"), &json!("95900m")));
        assert_eq!(status["allocatable"]["nvidia.com/gpu"], "8");
        assert_eq!(status["addresses"][0]["address"], "198.18.0.4");
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True");
        assert_eq!(node["spec"]["taints"][0]["key"], "nvidia.com/gpu");
    }

    #[test]
    fn conditions_keep_the_time_of_their_change() {
        let (since, now) = (Timestamp::from_secs(5), Timestamp::from_secs(9));
        let machine = Machine { number: 0, class: 0, zone: 0, rack: 0 };
        let status = status(machine, &FleetProfile::built_in(), since, now);
        for c in &status.conditions {
            assert_eq!((c.last_transition_time, c.last_heartbeat_time), (Some(since), Some(now)), "{}", c.kind);
        }
    }

    #[test]
    fn addresses_are_each_their_own() {
        assert_eq!(pod_ip(1, None, 0).to_string(), "100.64.1.2");
        assert_eq!(pod_ip(9_999, None, 252).to_string(), "100.103.15.254");
        assert_eq!(pod_ip(1, Some("10.244.7.0/24"), 3).to_string(), "10.244.7.5");
        assert_eq!(machine_ip(9_999).to_string(), "198.18.39.15");
        assert_eq!(machine_ip(MOST - 1).to_string(), "198.19.255.255");
    }
}
