//! What is sent: objects as people, agents and the scheduler write them, as bytes with places for what differs. Pure.

use bytes::Bytes;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "team-a";
/// Of the one whose few writes must not wait.
pub const QUIET: &str = "team-b";
pub const PODS: &str = "/api/v1/namespaces/team-a/pods";

/// Where a name goes.
const NAME: &str = "@NAME@";
/// Where something goes that is different each time.
const MARK: &str = "@MARK@";

/// A body with places in it.
pub struct Template {
    parts: Vec<Part>,
}

enum Part {
    Text(String),
    Name,
    Mark,
}

impl Template {
    pub fn new(value: &Value) -> Self {
        let text = value.to_string();
        let mut parts = Vec::new();
        let mut rest = &text[..];
        while let Some(at) = rest.find('@') {
            let (before, from) = rest.split_at(at);
            parts.push(Part::Text(before.to_owned()));
            let (place, length) = match from {
                _ if from.starts_with(NAME) => (Part::Name, NAME.len()),
                _ if from.starts_with(MARK) => (Part::Mark, MARK.len()),
                _ => (Part::Text("@".to_owned()), 1),
            };
            parts.push(place);
            rest = &from[length..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Self { parts }
    }

    pub fn fill(&self, name: &str, mark: &str) -> Bytes {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Name => name.to_owned(),
            Part::Mark => mark.to_owned(),
        };
        self.parts.iter().map(text).collect::<String>().into()
    }
}

pub fn pod_name(number: u64) -> String {
    format!("web-{number:07}")
}

pub fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

pub fn pod_path(number: u64) -> String {
    format!("{PODS}/{}", pod_name(number))
}

/// A pod as a ReplicaSet makes it. `node`: bound already. `padding` characters are added, so that it is stored in 4 KB.
pub fn pod(node: Option<&str>, padding: usize) -> Value {
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": NAME, "labels": {
            "app": "web", "tier": "frontend", "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"example.com/padding": noise(padding)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "6e1f7a3c-52d9-4d0a-8f63-0c9d8d5b1a11", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [{
            "name": "web", "image": "registry.example.com/team-a/web:1.27.3", "args": ["--listen=:8080", "--log=json"],
            "ports": [{"name": "http", "containerPort": 8080}],
            "env": [env("LOG_LEVEL", "info"), env("DATABASE_HOST", "db.team-a.svc")],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}]}],
            "volumes": [{"name": "config", "emptyDir": {}}]},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// What an agent says of a running pod: a strategic patch.
pub fn pod_status() -> Value {
    let since = "2026-11-30T15:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": since});
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({"status": {
        "phase": "Running", "hostIP": "192.0.2.20", "hostIPs": [{"ip": "192.0.2.20"}], "startTime": since,
        "podIP": "10.244.3.7", "podIPs": [{"ip": "10.244.3.7"}], "conditions": conditions,
        "containerStatuses": [{
            "name": "web", "ready": true, "started": true, "restartCount": 0, "lastState": {},
            "image": "registry.example.com/team-a/web:1.27.3",
            "imageID": "registry.example.com/team-a/web@sha256:1d9a1cf2f1a2b9c05c1c0f1f4ad0c2d24a4aa1c7f2e9c4f6f1b0f0c1a2b3c4d5",
            "containerID": format!("containerd://{MARK}"), "state": {"running": {"startedAt": since}}}]}})
}

pub fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": {
        "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-1"}}, "spec": {}})
}

/// With the 25 images that make up most of a real machine's object.
pub fn node_status() -> Value {
    let image = |number: usize| json!({"names": [format!("registry.example.com/team-a/web-{number}:1.27.3")], "sizeBytes": 123_456_789 + number});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "AsExpected", "message": "as the agent found it",
            "lastHeartbeatTime": "2026-11-30T15:00:00Z", "lastTransitionTime": "2026-11-30T15:00:00Z"})
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| condition(kind, "False"));
    let room = json!({"cpu": "1000", "memory": "4Ti", "pods": "100000", "ephemeral-storage": "10Ti"});
    json!({"status": {
        "capacity": room, "allocatable": room, "images": (0..25).map(image).collect::<Vec<_>>(),
        "conditions": conditions.into_iter().chain([condition("Ready", "True")]).collect::<Vec<_>>(),
        "addresses": [{"type": "InternalIP", "address": "192.0.2.20"}, {"type": "Hostname", "address": NAME}],
        "nodeInfo": {"architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "containerd://2.0.0",
            "kernelVersion": "6.18.0", "kubeProxyVersion": "v1.35.2", "kubeletVersion": "v1.35.2", "machineID": "m",
            "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "s"}}})
}

pub fn lease() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": NAME, "namespace": "kube-node-lease", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": NAME, "uid": "0b5c1c52-6a6d-4b1c-9f0e-a4b0f3d1c7a2"}]},
        "spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": "2026-11-30T15:00:00.000000Z"}})
}

/// What an agent sends every ten seconds.
pub fn renewal() -> Value {
    let time = format!("2026-11-30T15:00:00.{MARK}Z");
    json!({"spec": {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": time}})
}

pub fn event() -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "web-0000001",
            "uid": "6e1f7a3c-52d9-4d0a-8f63-0c9d8d5b1a11", "fieldPath": "spec.containers{web}"},
        "reason": "Started", "message": "Container web started", "type": "Normal", "count": 1,
        "source": {"component": "kubelet", "host": "node-00001"}, "reportingComponent": "kubelet",
        "reportingInstance": "node-00001",
        "firstTimestamp": "2026-11-30T15:00:00Z", "lastTimestamp": "2026-11-30T15:00:00Z"})
}

/// About `bytes` long as it is stored.
pub fn config_map(bytes: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app": "web", "tier": "frontend", "release": "stable", "team": "a"}},
        "data": {"version": MARK, "settings": noise(bytes.saturating_sub(620))}})
}

/// Characters that neither repeat nor need an escape.
fn noise(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut state = 88_172_645_463_325_252_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 20) as usize % LETTERS.len()])
    };
    (0..length).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_everywhere_and_keeps_the_rest() {
        let template = Template::new(&json!({"name": NAME, "b": format!("x@y {MARK}"), "c": NAME}));
        let filled: Value = serde_json::from_slice(&template.fill("n", "7")).unwrap();
        assert_eq!(filled, json!({"name": "n", "b": "x@y 7", "c": "n"}));
    }

    #[test]
    fn padding_makes_a_pod_longer_by_itself() {
        let length = |padding| pod(None, padding).to_string().len();
        assert_eq!(length(1_000), length(0) + 1_000);
    }
}
