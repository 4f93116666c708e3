//! A pod as the controllers see it, and what they read off it: active, ready, available, restarts. Decides nothing about
//! what becomes of it.

use std::cmp::Ordering;

use gantry_apimachinery::meta::{Object, ObjectMeta, OwnerReference};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Deserializer};

use super::Taint;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub hostname: Option<String>,
    pub subdomain: Option<String>,
    pub restart_policy: Option<String>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub tolerations: Vec<Toleration>,
    pub volumes: Vec<Volume>,
    /// The machine that the required affinity pins the pod to by name, as daemon pods have it.
    #[serde(rename = "affinity", deserialize_with = "pinned")]
    pub pinned_to: Option<String>,
}

/// Of a volume, the claim that it mounts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub persistent_volume_claim: Option<Claim>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claim {
    pub claim_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: Option<String>,
    pub container_port: i32,
    pub protocol: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    pub key: Option<String>,
    pub operator: Option<String>,
    pub value: Option<String>,
    pub effect: Option<String>,
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: Option<String>,
    pub conditions: Vec<PodCondition>,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub restart_count: i32,
    #[serde(deserialize_with = "finished_at")]
    pub state: Option<Timestamp>,
}

impl Object for Pod {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Pod {
    pub fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or("Pending")
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Counts as a replica: neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_terminating()
    }

    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// Since when it is ready.
    pub fn ready_since(&self) -> Option<Timestamp> {
        self.condition("Ready").filter(|c| c.status == "True").and_then(|c| c.last_transition_time)
    }

    /// Ready for at least `min_ready_s`.
    pub fn is_available(&self, min_ready_s: i32, now: Timestamp) -> bool {
        match self.ready_since() {
            _ if !self.is_ready() => false,
            _ if min_ready_s <= 0 => true,
            Some(since) => since.add_secs(i64::from(min_ready_s)) <= now,
            None => false,
        }
    }

    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|n| !n.is_empty())
    }

    /// The PersistentVolumeClaims that it mounts.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        let claims = self.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.map(|claim| claim.claim_name.as_str())
    }

    pub fn owner(&self) -> Option<&OwnerReference> {
        self.metadata.controller()
    }

    pub fn restarts(&self) -> i32 {
        self.status.container_statuses.iter().map(|c| c.restart_count).sum()
    }

    /// The containers that run as long as the pod does, sidecars last.
    pub fn lasting_containers(&self) -> impl Iterator<Item = &Container> {
        let sidecars = self.spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
        self.spec.containers.iter().chain(sidecars)
    }

    fn most_restarts(&self) -> i32 {
        self.status.container_statuses.iter().map(|c| c.restart_count).max().unwrap_or(0)
    }

    /// When the last container ended; the deletion or creation time when none says so.
    pub fn finished_at(&self) -> Option<Timestamp> {
        let ended = self.status.container_statuses.iter().filter_map(|c| c.state).max();
        ended.or(self.metadata.deletion_timestamp).or(self.metadata.creation_timestamp)
    }

    /// Orders pods by how little is lost when they are deleted, least first: unassigned, then by phase, not ready, cheaper
    /// by `controller.kubernetes.io/pod-deletion-cost`, on a machine with more siblings, ready for less long (in powers of
    /// two of seconds, so that near-equal ages do not always hit the newest), restarted more often, created later.
    pub fn deletion_order(a: (&Pod, usize), b: (&Pod, usize), now: Timestamp) -> Ordering {
        let ((pod_a, rank_a), (pod_b, rank_b)) = (a, b);
        let phase = |p: &Pod| match p.phase() {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let ready_age = |p: &Pod| match p.ready_since() {
            Some(since) => now.since(since).as_secs().checked_ilog2().map_or(0, |n| n + 1),
            None => 0,
        };
        (pod_a.node().is_some().cmp(&pod_b.node().is_some()))
            .then_with(|| phase(pod_a).cmp(&phase(pod_b)))
            .then_with(|| pod_a.is_ready().cmp(&pod_b.is_ready()))
            .then_with(|| pod_a.deletion_cost().cmp(&pod_b.deletion_cost()))
            .then_with(|| rank_b.cmp(&rank_a))
            .then_with(|| ready_age(pod_a).cmp(&ready_age(pod_b)))
            .then_with(|| pod_b.most_restarts().cmp(&pod_a.most_restarts()))
            .then_with(|| pod_b.metadata.creation_timestamp.cmp(&pod_a.metadata.creation_timestamp))
            .then_with(|| pod_a.metadata.uid.cmp(&pod_b.metadata.uid))
    }

    fn deletion_cost(&self) -> i32 {
        let annotation = self.metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost");
        annotation.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// Whether a toleration covers a taint (Kubernetes: an empty key with `Exists` covers all, an empty effect every effect).
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, effect) = (given(&toleration.key), given(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => !key.is_empty() && given(&toleration.value) == taint.value.clone().unwrap_or_default(),
        _ => false,
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<Required>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Required {
    node_selector_terms: Vec<Term>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_fields: Vec<Field>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Field {
    key: String,
    values: Vec<String>,
}

fn pinned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let affinity = Option::<Affinity>::deserialize(deserializer)?;
    let required = affinity
        .and_then(|a| a.node_affinity)
        .and_then(|n| n.required_during_scheduling_ignored_during_execution)
        .unwrap_or_default();
    let mut fields = required.node_selector_terms.into_iter().flat_map(|t| t.match_fields);
    Ok(fields.find(|f| f.key == "metadata.name").and_then(|f| f.values.into_iter().next()))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    finished_at: Option<Timestamp>,
}

fn finished_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let state = Option::<ContainerState>::deserialize(deserializer)?;
    Ok(state.and_then(|s| s.terminated).and_then(|t| t.finished_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tolerations_cover_taints_as_kubernetes_says() {
        let check = |toleration: serde_json::Value, expect: bool| {
            let toleration: Toleration = serde_json::from_value(toleration).unwrap();
            let taint =
                Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into(), time_added: None };
            assert_eq!(tolerates(&toleration, &taint), expect, "{toleration:?}");
        };
        check(json!({"operator": "Exists"}), true);
        check(json!({"key": "k", "operator": "Exists"}), true);
        check(json!({"key": "k", "value": "v"}), true);
        check(json!({"key": "k", "value": "w"}), false);
        check(json!({"key": "x", "operator": "Exists"}), false);
        check(json!({"operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"value": "v"}), false);
    }

    #[test]
    fn reads_only_what_matters() {
        let p = pod(json!({"metadata": {"name": "a"}, "spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields":
            [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}},
            "status": {"containerStatuses": [{"restartCount": 2,
                "state": {"terminated": {"finishedAt": "2026-01-01T00:00:05Z"}}}]}}));
        assert_eq!(p.spec.pinned_to.as_deref(), Some("n1"));
        assert_eq!((p.restarts(), p.finished_at()), (2, Some(Timestamp::parse("2026-01-01T00:00:05Z").unwrap())));
    }

    #[test]
    fn the_least_valuable_pod_goes_first() {
        let now = Timestamp::parse("2026-01-01T01:00:00Z").unwrap();
        let ready = |name: &str, since: &str| {
            json!({"metadata": {"name": name}, "spec": {"nodeName": "n"}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}})
        };
        let mut costly = ready("costly", "2026-01-01T00:59:59Z");
        costly["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "5"});
        let mut pods = [
            (pod(costly), 0),
            (pod(ready("old", "2026-01-01T00:00:00Z")), 0),
            (pod(ready("young", "2026-01-01T00:59:50Z")), 0),
            (pod(ready("crowded", "2026-01-01T00:00:00Z")), 3),
            (
                pod(
                    json!({"metadata": {"name": "unready"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}),
                ),
                0,
            ),
            (pod(json!({"metadata": {"name": "pending"}, "spec": {"nodeName": "n"}})), 0),
            (pod(json!({"metadata": {"name": "unassigned"}})), 0),
        ];
        pods.sort_by(|a, b| Pod::deletion_order((&a.0, a.1), (&b.0, b.1), now));
        let names: Vec<_> = pods.iter().map(|(p, _)| p.metadata.name.as_str()).collect();
        assert_eq!(names, ["unassigned", "pending", "unready", "crowded", "young", "old", "costly"]);
    }
}
