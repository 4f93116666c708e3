//! What a hollow machine keeps of a pod and of a Node: only what its decisions and reports depend on. Pure.

use std::sync::Arc;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::{Deserialize, Deserializer};

use crate::api::node::Node;
use crate::api::pod::{Container, Handler, Pod, PodSpec, Probe};

/// Annotations that say how a pod lives begin so.
const OWN: &str = "gantry.dev/hollow-";
/// The first probe of a container decides; the next one comes after this.
const PROBE_S: i64 = 3_600;

/// A pod without what a runtime in memory never looks at.
#[derive(Debug)]
pub struct HollowPod(pub Arc<Pod>);

impl Object for HollowPod {
    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }
}

impl<'de> Deserialize<'de> for HollowPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pod::deserialize(deserializer).map(|pod| Self(Arc::new(slim(pod))))
    }
}

pub fn slim(pod: Pod) -> Pod {
    let Pod { metadata, spec, mut status } = pod;
    // A parser leaves room for more in every list; over thousands of pods that is most of what they take.
    status.conditions.shrink_to_fit();
    status.init_container_statuses.shrink_to_fit();
    status.container_statuses.shrink_to_fit();
    let mut metadata = bare(metadata);
    metadata.annotations.retain(|key, _| key.starts_with(OWN));
    let containers = |all: Vec<Container>| {
        let mut kept: Vec<Container> = all.into_iter().map(container).collect();
        kept.shrink_to_fit();
        kept
    };
    let spec = PodSpec {
        containers: containers(spec.containers),
        init_containers: containers(spec.init_containers),
        ephemeral_containers: containers(spec.ephemeral_containers),
        node_name: spec.node_name,
        restart_policy: spec.restart_policy,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        active_deadline_seconds: spec.active_deadline_seconds,
        host_network: spec.host_network,
        readiness_gates: spec.readiness_gates,
        ..PodSpec::default()
    };
    Pod { metadata, spec, status }
}

fn bare(mut metadata: ObjectMeta) -> ObjectMeta {
    metadata.labels.clear();
    metadata.owner_references = vec![];
    metadata.finalizers = vec![];
    metadata
}

fn container(from: Container) -> Container {
    Container {
        name: from.name,
        image: from.image,
        image_pull_policy: from.image_pull_policy,
        restart_policy: from.restart_policy,
        target_container_name: from.target_container_name,
        startup_probe: from.startup_probe.map(once),
        readiness_probe: from.readiness_probe.map(once),
        ..Container::default()
    }
}

/// It passes at its first try, after its delay: what comes later would only keep the machine busy.
fn once(probe: Probe) -> Probe {
    Probe {
        handler: Handler::default(),
        initial_delay_seconds: probe.initial_delay_seconds,
        period_seconds: Some(PROBE_S),
        success_threshold: Some(1),
        ..Probe::default()
    }
}

/// What a machine wants to know of its own Node.
#[derive(Debug)]
pub struct SeenNode {
    metadata: ObjectMeta,
    pub ready: bool,
    pub pod_cidr: Option<String>,
}

impl Object for SeenNode {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<'de> Deserialize<'de> for SeenNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        let ready = node.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
        let mut metadata = bare(node.metadata);
        metadata.annotations.clear();
        Ok(Self { metadata, ready, pod_cidr: node.spec.pod_cidr })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_kept_is_what_reports_need() {
        let full = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
                "labels": {"a": "b"}, "annotations": {"x": "y", "gantry.dev/hollow-lifetime": "5s"},
                "ownerReferences": [{"kind": "Job", "name": "j"}]},
            "spec": {"nodeName": "n", "restartPolicy": "Never", "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}],
                    "livenessProbe": {"httpGet": {"port": 1}},
                    "readinessProbe": {"httpGet": {"port": 1}, "initialDelaySeconds": 4, "successThreshold": 3}}]},
            "status": {"phase": "Running"},
        });
        let kept = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
                "annotations": {"gantry.dev/hollow-lifetime": "5s"}},
            "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i",
                "readinessProbe": {"initialDelaySeconds": 4, "periodSeconds": 3_600, "successThreshold": 1}}]},
            "status": {"phase": "Running"},
        });
        let HollowPod(slimmed) = serde_json::from_value(full).unwrap();
        assert_eq!(*slimmed, serde_json::from_value::<Pod>(kept).unwrap());
        let node = json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let node: SeenNode = serde_json::from_value(node).unwrap();
        assert!(node.ready && node.pod_cidr.as_deref() == Some("10.0.0.0/24") && node.metadata.labels.is_empty());
    }
}
