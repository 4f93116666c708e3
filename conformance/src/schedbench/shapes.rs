//! What machines and pods of the benchmark look like: the shapes of kube-scheduler's performance suite as objects. Pure.
//!
//! Requests, rules, weights and counts are those of `test/integration/scheduler_perf` in kubernetes/kubernetes, so that its floors
//! can stand beside our figures.

use serde_json::{Value, json};

/// Where a name goes, as [`crate::apibench::bodies::Template`] fills it.
const NAME: &str = "@NAME@";
/// Where something goes that is different for each object.
const MARK: &str = "@MARK@";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// Namespaces of the pods that are there before, and of the measured ones.
pub const BEFORE: &str = "sched-0";
pub const MEASURED: &str = "sched-1";
/// A class of the benchmark's own: above those without a class, in no band.
pub const HIGH: &str = "bench-high";
pub const HIGH_VALUE: i32 = 10;
/// The one machine of the published daemon set.
pub const CHOSEN: &str = "chosen";

/// What kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 4 CPUs, 32 GiB, 110 pods.
    Plain,
    /// Has one of a resource that no other machine has.
    Extended,
    /// Holds every pod of the published daemon set.
    Chosen,
}

/// What kind of pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pod {
    Plain,
    Spread {
        required: bool,
    },
    Affinity {
        required: bool,
    },
    AntiAffinity {
        required: bool,
    },
    /// Rules that reach into every namespace of a label.
    AffinityAcross,
    AntiAffinityAcross,
    /// Asks for the resource of the machine with its own number.
    Extended,
    /// Of no priority, and ended at once.
    Low,
    /// Needs most of a machine and may end others.
    High,
    /// Fits on no machine and may end others.
    TooLarge,
    /// Pinned to [`CHOSEN`].
    OnChosen,
    /// Pinned to the machine with its own number.
    OnEach,
}

/// A machine's body. `zone`: its label, if it has one. It comes with its status, as an agent registers.
pub fn machine(kind: Machine, zone: Option<&str>) -> Value {
    let mut room = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    match kind {
        Machine::Plain => {}
        Machine::Extended => room[extended()] = "1".into(),
        Machine::Chosen => room["pods"] = "90000".into(),
    }
    let mut labels = json!({HOST: NAME});
    if let Some(zone) = zone {
        labels[ZONE] = zone.into();
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "AsExpected", "message": "as the agent found it",
        "lastHeartbeatTime": "2026-11-30T15:00:00Z", "lastTransitionTime": "2026-11-30T15:00:00Z"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": labels}, "spec": {},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]}})
}

/// The resource that one machine has; its number is the object's mark.
fn extended() -> String {
    format!("example.com/device-{MARK}")
}

/// Takes away the taint of a new machine, as the node lifecycle does.
pub fn untainted() -> Value {
    json!({"spec": {"taints": null}})
}

/// A pod's body.
pub fn pod(kind: Pod) -> Value {
    let mut requests = json!({"cpu": "100m", "memory": "500Mi"});
    let mut labels = json!({});
    let mut extra = json!({});
    let everywhere = json!({"matchLabels": {"team": "devops"}});
    match kind {
        Pod::Plain => {}
        Pod::Spread { required } => {
            labels = json!({"color": "blue"});
            extra = spread(required);
        }
        Pod::Affinity { required } => {
            let (color, key) = if required { ("blue", ZONE) } else { ("red", HOST) };
            labels = json!({"color": color});
            extra = affinity("podAffinity", required, named(color, key));
        }
        Pod::AntiAffinity { required } => {
            let color = if required { "green" } else { "yellow" };
            labels = json!({"color": color});
            extra = affinity("podAntiAffinity", required, named(color, HOST));
        }
        Pod::AffinityAcross => {
            labels = json!({"color": "blue"});
            extra = affinity("podAffinity", true, rule("blue", ZONE, "namespaceSelector", &everywhere));
        }
        Pod::AntiAffinityAcross => {
            labels = json!({"color": "green"});
            extra = affinity("podAntiAffinity", true, rule("green", HOST, "namespaceSelector", &everywhere));
        }
        Pod::Extended => requests = json!({extended(): "1"}),
        Pod::Low => {
            requests["cpu"] = "900m".into();
            extra = json!({"terminationGracePeriodSeconds": 0});
        }
        Pod::High => {
            requests["cpu"] = "3".into();
            extra = json!({"priorityClassName": HIGH});
        }
        Pod::TooLarge => {
            requests["cpu"] = "9".into();
            extra = json!({"priorityClassName": HIGH});
        }
        Pod::OnChosen | Pod::OnEach => {
            requests = json!({});
            let name = if kind == Pod::OnChosen { CHOSEN.to_owned() } else { format!("node-{MARK}") };
            extra = pinned(&name);
        }
    }
    let mut spec = json!({"containers": [{"name": "pause", "image": "registry.example.com/pause:3.10",
        "ports": [{"containerPort": 80}], "resources": {"requests": requests, "limits": requests}}]});
    for (field, value) in extra.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "labels": labels}, "spec": spec})
}

fn spread(required: bool) -> Value {
    let otherwise = if required { "DoNotSchedule" } else { "ScheduleAnyway" };
    json!({"topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"color": "blue"}}}]})
}

fn rule(color: &str, key: &str, reach: &str, namespaces: &Value) -> Value {
    json!({"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key, reach: namespaces})
}

fn named(color: &str, key: &str) -> Value {
    rule(color, key, "namespaces", &json!([MEASURED, BEFORE]))
}

fn affinity(kind: &str, required: bool, term: Value) -> Value {
    if required {
        return json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    }
    let term = json!({"weight": 1, "podAffinityTerm": term});
    json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// As the daemon set controller pins its pods.
fn pinned(machine: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [machine]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": [field]}]}}}})
}

/// A pod of a class, with small requests, so that many fit.
pub fn classed(class: Option<&str>) -> Value {
    let mut pod = pod(Pod::Plain);
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "50m", "memory": "64Mi"}});
    pod
}

/// Bound already by its maker: to the machine whose number is its mark.
pub fn placed() -> Value {
    let mut pod = classed(None);
    pod["spec"]["nodeName"] = format!("node-{MARK}").into();
    pod
}

/// So many tasks at once, which run on until they are deleted.
pub fn job(name: &str, tasks: u64) -> Value {
    let mut pod = classed(Some("batch"));
    pod["spec"]["restartPolicy"] = "Never".into();
    let annotations = json!({"gantry.dev/hollow-lifetime": "10h"});
    let template = json!({"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": pod["spec"]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"parallelism": tasks, "completions": tasks, "backoffLimit": 6, "template": template}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apibench::bodies::Template;

    fn filled(body: &Value) -> Value {
        serde_json::from_slice(&Template::new(body).fill("m-0000007", "7")).unwrap()
    }

    #[test]
    fn an_extended_pod_asks_for_its_own_machine() {
        let (node, pod) = (filled(&machine(Machine::Extended, None)), filled(&pod(Pod::Extended)));
        assert_eq!(node["status"]["allocatable"]["example.com/device-7"], "1");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], json!({"example.com/device-7": "1"}));
    }

    #[test]
    fn rules_are_those_of_the_published_suite() {
        let anti = filled(&pod(Pod::AntiAffinity { required: true }));
        let term = &anti["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!((&term["topologyKey"], &term["namespaces"]), (&json!(HOST), &json!(["sched-1", "sched-0"])));
        assert_eq!(anti["metadata"]["labels"], term["labelSelector"]["matchLabels"]);
        let soft = filled(&pod(Pod::Spread { required: false }));
        assert_eq!(soft["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"], "ScheduleAnyway");
        let each = filled(&pod(Pod::OnEach)).to_string();
        assert!(each.contains(r#""values":["node-7"]"#), "{each}");
    }
}
