//! Decides what `kubectl get pods` shows: the one word that sums up a pod's state, its ready and restart counts.

use crate::kinds::columns::{self, Column};
use crate::kinds::value::{at, bool_at, i64_at, items, str_at};
use gantry_apimachinery::time::{Timestamp, human_duration};
use serde_json::Value;

pub const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    Column::text("Status", "The aggregate status of the containers in this pod."),
    Column::text("Restarts", "How often its containers were restarted, and when last."),
    Column::AGE,
    Column::text("IP", "The pod's address.").wide(),
    Column::text("Node", "The machine it is bound to.").wide(),
    Column::text("Nominated Node", "The machine where room is being made for it.").wide(),
    Column::text("Readiness Gates", "How many of its readiness gates are met.").wide(),
];

pub fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    vec![
        columns::name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.clone().into(),
        summary.restarts(now).into(),
        columns::age(pod, now),
        or_none(str_at(pod, "status.podIP")),
        or_none(str_at(pod, "spec.nodeName")),
        or_none(str_at(pod, "status.nominatedNodeName")),
        readiness_gates(pod),
    ]
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = items(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let met = gates.iter().filter(|gate| condition(pod, str_at(gate, "conditionType"), "status") == "True").count();
    format!("{met}/{}", gates.len()).into()
}

/// A member of the condition of this type, or "".
fn condition<'a>(pod: &'a Value, kind: &str, member: &str) -> &'a str {
    let found = items(pod, "status.conditions").iter().find(|condition| condition["type"] == kind);
    found.map_or("", |condition| str_at(condition, member))
}

/// What the cells are made of.
#[derive(Debug, Default)]
pub struct Summary {
    pub ready: usize,
    pub total: usize,
    /// The STATUS column.
    pub reason: String,
    count: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    pub fn of(pod: &Value) -> Summary {
        let phase = str_at(pod, "status.phase");
        let mut summary = Summary { total: items(pod, "spec.containers").len(), ..Summary::default() };
        summary.total += items(pod, "spec.initContainers").iter().filter(|c| is_sidecar(c)).count();
        summary.reason = match str_at(pod, "status.reason") {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        };
        if condition(pod, "PodScheduled", "reason") == "SchedulingGated" {
            summary.reason = "SchedulingGated".to_owned();
        }
        let sidecars = summary.init_containers(pod);
        let initializing = sidecars.is_none();
        if !initializing || condition(pod, "Initialized", "status") == "True" {
            (summary.count, summary.last_restart) = sidecars.unwrap_or_else(|| sidecar_restarts(pod));
            summary.containers(pod);
        }
        let ended = matches!(phase, "Succeeded" | "Failed");
        if at(pod, "metadata.deletionTimestamp").is_some() {
            if str_at(pod, "status.reason") == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !ended {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Walks the init containers up to the one that still works or failed. Returns the restarts of sidecars when all are
    /// done, nothing while the pod is initialising.
    fn init_containers(&mut self, pod: &Value) -> Option<(i64, Option<Timestamp>)> {
        let specs = items(pod, "spec.initContainers");
        for (position, status) in items(pod, "status.initContainerStatuses").iter().enumerate() {
            self.add_restarts(status);
            let sidecar = specs.iter().any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            let ended = at(status, "state.terminated");
            let waiting = str_at(status, "state.waiting.reason");
            if ended.is_some_and(|ended| i64_at(ended, "exitCode") == Some(0)) {
                continue;
            }
            if sidecar && bool_at(status, "started") {
                self.ready += usize::from(bool_at(status, "ready"));
                continue;
            }
            self.reason = match ended {
                Some(ended) => format!("Init:{}", end_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{position}/{}", specs.len()),
            };
            return None;
        }
        Some(sidecar_restarts(pod))
    }

    fn containers(&mut self, pod: &Value) {
        let mut running = false;
        for status in items(pod, "status.containerStatuses").iter().rev() {
            self.add_restarts(status);
            let waiting = str_at(status, "state.waiting.reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = at(status, "state.terminated") {
                self.reason = end_reason(ended);
            } else if bool_at(status, "ready") && at(status, "state.running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = condition(pod, "Ready", "status") == "True";
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.count += i64_at(status, "restartCount").unwrap_or(0);
        self.last_restart = self.last_restart.max(ended_at(status));
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human_duration(now.secs() - last.secs()))
            }
            _ => self.count.to_string(),
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn sidecar_restarts(pod: &Value) -> (i64, Option<Timestamp>) {
    let specs = items(pod, "spec.initContainers");
    let mut sum = Summary::default();
    for status in items(pod, "status.initContainerStatuses") {
        if specs.iter().any(|spec| spec["name"] == status["name"] && is_sidecar(spec)) {
            sum.add_restarts(status);
        }
    }
    (sum.count, sum.last_restart)
}

fn ended_at(status: &Value) -> Option<Timestamp> {
    Timestamp::parse(str_at(status, "lastState.terminated.finishedAt")).ok()
}

fn end_reason(ended: &Value) -> String {
    match (str_at(ended, "reason"), i64_at(ended, "signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", i64_at(ended, "exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
