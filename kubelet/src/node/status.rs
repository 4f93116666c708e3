//! The Node's status from what was seen. Pure; writes nothing.

use std::collections::BTreeMap;

use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::time::Timestamp;

use super::machine::{DISK_LEAST_PERCENT, Facts, Pressure, architecture, disk_least};
use crate::api::node::{
    DaemonEndpoint, DaemonEndpoints, Node, NodeAddress, NodeCondition, NodeImage, NodeInfo, NodeStatus,
};
use crate::config::Config;
use crate::runtime::{ImageSeen, Result as RuntimeResult, RuntimeHealth, RuntimeVersion};

/// As the cluster reports its version everywhere.
const VERSION: &str = "v1.35.2+gantry";
/// A Node lists at most this many images, the largest ones.
const MAX_IMAGES: usize = 50;

pub struct Seen {
    pub runtime: RuntimeResult<RuntimeHealth>,
    pub version: RuntimeVersion,
    pub images: Vec<ImageSeen>,
    pub pressure: Pressure,
}

fn quantity(text: String) -> Quantity {
    Quantity::parse(&text).expect("a number with a known suffix is a quantity")
}

fn kibibytes(bytes: i64) -> Quantity {
    quantity(format!("{}Ki", bytes.max(0) / 1024))
}

pub fn of(node: &Node, config: &Config, facts: &Facts, seen: &Seen, now: Timestamp) -> NodeStatus {
    let (capacity, allocatable) = resources(node, config, facts);
    NodeStatus {
        capacity,
        allocatable,
        addresses: addresses(config),
        conditions: conditions(node, config, facts, seen, now),
        node_info: NodeInfo {
            machine_id: facts.machine_id.clone(),
            system_uuid: facts.system_uuid.clone(),
            boot_id: facts.boot_id.clone(),
            kernel_version: facts.kernel.clone(),
            os_image: facts.os_image.clone(),
            container_runtime_version: runtime_version(node, &seen.version),
            kubelet_version: VERSION.into(),
            kube_proxy_version: String::new(),
            operating_system: "linux".into(),
            architecture: architecture().into(),
        },
        images: images(&seen.images),
        daemon_endpoints: DaemonEndpoints { kubelet_endpoint: DaemonEndpoint { port: config.listen.port() } },
    }
}

/// A runtime that does not answer has not changed its version.
fn runtime_version(node: &Node, v: &RuntimeVersion) -> String {
    let before = &node.status.node_info.container_runtime_version;
    if v.name.is_empty() { before.clone() } else { format!("{}://{}", v.name, v.version) }
}

type List = BTreeMap<String, Quantity>;

/// What the machine has and what pods may use of it. Resources that somebody else put on the Node stay, and all of
/// each may be used.
fn resources(node: &Node, config: &Config, facts: &Facts) -> (List, List) {
    let pods = quantity(config.max_pods.to_string());
    let own = |cpu: i64, memory: i64| {
        let disk = kibibytes(facts.disk_bytes);
        List::from([
            ("cpu".to_owned(), quantity(format!("{cpu}m"))),
            ("memory".to_owned(), kibibytes(memory)),
            ("pods".to_owned(), pods),
            ("ephemeral-storage".to_owned(), disk),
            ("hugepages-1Gi".to_owned(), quantity("0".into())),
            ("hugepages-2Mi".to_owned(), quantity("0".into())),
        ])
    };
    let mut capacity = own(facts.cpus * 1000, facts.memory_bytes);
    let mut allocatable = own(
        (facts.cpus * 1000 - config.reserved_milli_cpu).max(0),
        (facts.memory_bytes - config.reserved_memory_bytes).max(0),
    );
    for (name, value) in &node.status.capacity {
        if !capacity.contains_key(name) {
            capacity.insert(name.clone(), *value);
            allocatable.insert(name.clone(), *value);
        }
    }
    (capacity, allocatable)
}

fn addresses(config: &Config) -> Vec<NodeAddress> {
    let ips = config.node_ips.iter().map(|ip| NodeAddress { kind: "InternalIP".into(), address: ip.to_string() });
    ips.chain([NodeAddress { kind: "Hostname".into(), address: config.node_name.clone() }]).collect()
}

fn images(seen: &[ImageSeen]) -> Vec<NodeImage> {
    let mut images: Vec<NodeImage> = seen
        .iter()
        .map(|i| NodeImage { names: i.digests.iter().chain(&i.tags).cloned().collect(), size_bytes: i.size_bytes })
        .collect();
    images.sort_by(|a, b| b.size_bytes.cmp(&a.size_bytes).then_with(|| a.names.cmp(&b.names)));
    images.truncate(MAX_IMAGES);
    images
}

fn conditions(node: &Node, config: &Config, facts: &Facts, seen: &Seen, now: Timestamp) -> Vec<NodeCondition> {
    let make = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        let before = node.status.conditions.iter().find(|c| c.kind == kind && c.status == status);
        NodeCondition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_heartbeat_time: Some(now),
            last_transition_time: before.and_then(|c| c.last_transition_time).or(Some(now)),
        }
    };
    let p = seen.pressure;
    let memory = match p.memory {
        true => {
            make("MemoryPressure", true, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
        }
        false => make("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    };
    let disk = match p.disk {
        true => {
            // No figure that changes at every look: each would be written.
            let (least, root) = (disk_least(facts.disk_bytes) >> 20, config.root.display());
            let message = format!(
                "kubelet has disk pressure: less than {least} MiB ({DISK_LEAST_PERCENT} %) of the disk of {root} are free"
            );
            make("DiskPressure", true, "KubeletHasDiskPressure", &message)
        }
        false => make("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    };
    let pids = match p.pids {
        true => make("PIDPressure", true, "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        false => make("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    };
    let ready = match not_ready(node, config, seen) {
        None => make("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        Some(why) => make("Ready", false, "KubeletNotReady", &why),
    };
    vec![memory, disk, pids, ready]
}

fn not_ready(node: &Node, config: &Config, seen: &Seen) -> Option<String> {
    match &seen.runtime {
        Err(e) => Some(format!("container runtime is down: {e}")),
        Ok(h) if !h.runtime_ready => Some(format!("container runtime not ready: {}", h.message)),
        Ok(_) if !config.external_cni && node.spec.pod_cidr.is_none() => {
            Some("container runtime network not ready: the machine has no podCIDR yet".into())
        }
        Ok(h) if !h.network_ready => Some(format!("container runtime network not ready: {}", h.message)),
        Ok(_) => None,
    }
}

/// Equal but for the times of heartbeats.
pub fn same(a: &NodeStatus, b: &NodeStatus) -> bool {
    let plain = |s: &NodeStatus| {
        let mut s = s.clone();
        // Other agents' conditions are not ours to compare.
        s.conditions.retain(|c| ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].contains(&c.kind.as_str()));
        s.conditions.sort_by(|x, y| x.kind.cmp(&y.kind));
        for c in &mut s.conditions {
            c.last_heartbeat_time = None;
            c.last_transition_time = None;
        }
        s
    };
    plain(a) == plain(b)
}
