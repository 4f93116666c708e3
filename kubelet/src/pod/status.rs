//! A pod's status, derived from its state: phase, conditions, container statuses. Pure; writes nothing.

use super::Now;
use super::settle::{init_failed, restarts};
use super::state::{Container, Imposed, Phase, Role, Sandbox, State, Waiting};
use crate::api::status::{
    ContainerState, ContainerStatus, HostIp, PodCondition, PodIp, PodStatus, Running, Terminated,
    Waiting as WaitingStatus,
};

pub fn of(s: &State, now: Now) -> PodStatus {
    let ips: Vec<String> = match &s.sandbox {
        _ if s.pod.spec.host_network && s.sandbox != Sandbox::None => s.facts.host_ips.clone(),
        _ if !s.ips.is_empty() => s.ips.clone(),
        _ => s.reported.pod_ips.iter().flatten().map(|i| i.ip.clone()).collect(),
    };
    let mut status = PodStatus {
        observed_generation: s.pod.metadata.generation,
        phase: phase(s).to_owned(),
        reason: s.failure.as_ref().map(|f| f.0.clone()),
        message: s.failure.as_ref().map(|f| f.1.clone()),
        host_ip: s.facts.host_ips.first().cloned(),
        host_ips: s.facts.host_ips.iter().map(|ip| HostIp { ip: ip.clone() }).collect(),
        pod_ip: ips.first().cloned(),
        pod_ips: (!ips.is_empty()).then(|| ips.iter().map(|ip| PodIp { ip: ip.clone() }).collect()),
        start_time: s.start_time,
        init_container_statuses: statuses(s, &[Role::Init, Role::Sidecar]),
        container_statuses: statuses(s, &[Role::Main]),
        ephemeral_container_statuses: statuses(s, &[Role::Ephemeral]),
        conditions: vec![],
    };
    status.conditions = conditions(s, &status, now);
    status
}

fn phase(s: &State) -> &'static str {
    if let Some(end) = final_phase(s) {
        return end;
    }
    let ends: Vec<&Container> = s.containers.values().filter(|c| c.role == Role::Main).collect();
    let init_pending = s.containers.values().any(|c| match c.role {
        Role::Init => !c.succeeded(),
        Role::Sidecar => c.next_attempt == 0 || c.running().is_some_and(|r| !r.started && c.restart_count() == 0),
        Role::Main | Role::Ephemeral => false,
    });
    let never_ran = ends
        .iter()
        .any(|c| c.last.is_none() && matches!(c.phase, Phase::Waiting(_) | Phase::FindingImage | Phase::Starting));
    if (init_pending && ends.iter().all(|c| c.next_attempt == 0)) || never_ran { "Pending" } else { "Running" }
}

/// How the pod ended. It is not taken back, so no container of any role may run or be on its way; unless somebody else said
/// so, who is not contradicted.
fn final_phase(s: &State) -> Option<&'static str> {
    match s.imposed {
        Some(Imposed::Succeeded) => return Some("Succeeded"),
        Some(Imposed::Failed) => return Some("Failed"),
        None => {}
    }
    if s.containers.values().any(|c| c.is_active() || c.phase == Phase::FindingImage) {
        return None;
    }
    if s.failure.is_some() || init_failed(s) {
        return Some("Failed");
    }
    let policy = s.pod.spec.restart_policy;
    let final_exit = |c: &Container| match &c.phase {
        Phase::Exited(t) if s.stop.is_some() || !restarts(Role::Main, policy, t) => Some(t.exit_code),
        _ => None,
    };
    let mains = s.containers.values().filter(|c| c.role == Role::Main);
    let codes: Vec<i32> = mains.map(final_exit).collect::<Option<_>>()?;
    let worst = codes.iter().map(|code| code.unsigned_abs()).max()?;
    Some(if worst == 0 { "Succeeded" } else { "Failed" })
}

fn statuses(s: &State, roles: &[Role]) -> Vec<ContainerStatus> {
    s.names(roles).into_iter().map(|name| container(s, &name, &s.containers[&name])).collect()
}

fn container(s: &State, name: &str, c: &Container) -> ContainerStatus {
    let prefixed = |id: &String| format!("{}://{id}", s.facts.runtime);
    let shown = |t: &Terminated| Terminated { container_id: t.container_id.as_ref().map(prefixed), ..t.clone() };
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(WaitingStatus { reason: reason.into(), message }),
        ..ContainerState::default()
    };
    let (mut id, mut ready, mut started) = (None, false, false);
    let mut last = c.last.as_ref();
    let state = match &c.phase {
        Phase::Running(r) => {
            (id, ready, started) = (Some(r.id.clone()), r.ready, r.started);
            ContainerState { running: Some(Running { started_at: Some(r.at) }), ..ContainerState::default() }
        }
        Phase::Exited(t) => {
            id = t.container_id.clone();
            // An init container that did its work counts as ready.
            ready = c.role == Role::Init && t.exit_code == 0;
            ContainerState { terminated: Some(shown(t)), ..ContainerState::default() }
        }
        Phase::Waiting(w) => waiting_state(s, name, c, w, &waiting),
        // While a restart is prepared the end of the last run is still the truth to tell.
        Phase::FindingImage | Phase::Starting | Phase::Unknown => match &c.last {
            Some(t) => {
                last = None;
                ContainerState { terminated: Some(shown(t)), ..ContainerState::default() }
            }
            None => waiting(turn(s, c), None),
        },
    };
    let id = id.or_else(|| c.last.as_ref().and_then(|t| t.container_id.clone()));
    ContainerStatus {
        name: name.to_owned(),
        state,
        last_state: ContainerState { terminated: last.map(shown), ..ContainerState::default() },
        ready,
        restart_count: restart_count(c),
        image: s.pod.container(name).map(|spec| spec.image.clone()).unwrap_or_default(),
        image_id: c.image_id.clone(),
        container_id: id.as_ref().map(prefixed),
        started: Some(started),
    }
}

/// A start under way is not yet a restart that people should see.
fn restart_count(c: &Container) -> u32 {
    match c.phase {
        Phase::Starting | Phase::Unknown => c.restart_count().saturating_sub(1),
        _ => c.restart_count(),
    }
}

fn waiting_state(
    s: &State,
    name: &str,
    c: &Container,
    w: &Waiting,
    waiting: &dyn Fn(&str, Option<String>) -> ContainerState,
) -> ContainerState {
    match w {
        Waiting::Turn => waiting(turn(s, c), None),
        Waiting::Image { told: true, message, .. } => {
            let image = s.pod.container(name).map(|spec| spec.image.as_str()).unwrap_or_default();
            waiting("ImagePullBackOff", Some(format!("Back-off pulling image \"{image}\": ErrImagePull: {message}")))
        }
        Waiting::Image { reason, message, .. } => waiting(reason, Some(message.clone())),
        Waiting::Start { reason, message, .. } => waiting(reason, Some(message.clone())),
        Waiting::CrashLoop { .. } => {
            let delay = match c.crashes.delay_ms() / 1000 {
                d if d >= 60 => format!("{}m{}s", d / 60, d % 60),
                d => format!("{d}s"),
            };
            let label = s.pod.label();
            let text = format!("back-off {delay} restarting failed container={name} pod={label}");
            waiting("CrashLoopBackOff", Some(text))
        }
    }
}

fn turn(s: &State, c: &Container) -> &'static str {
    let inits_run = s.containers.values().any(|i| i.role == Role::Init && !i.succeeded());
    if inits_run && c.role == Role::Main || c.role == Role::Init && s.sandbox == Sandbox::None {
        "PodInitializing"
    } else {
        "ContainerCreating"
    }
}

struct Verdict {
    kind: &'static str,
    status: bool,
    reason: Option<String>,
    message: Option<String>,
}

/// Whether somebody else changed a condition after it was told, as the node lifecycle controller does to the pods of a
/// machine that fell silent. An older report of this agent's own that comes back is no such change. The API keeps seconds.
pub fn overruled(told: &PodStatus, api: &PodStatus) -> bool {
    let second = |condition: &PodCondition| condition.last_transition_time.map(|at| at.micros() / 1_000_000);
    let changed = |theirs: &PodCondition| {
        let ours = told.condition(&theirs.kind);
        ours.is_some_and(|ours| theirs.status != ours.status && second(theirs) >= second(ours))
    };
    api.conditions.iter().any(changed)
}

/// Whether the API shows something else than was told, in the agent's own fields: other conditions, and what the agent does
/// not know, belong to others. Both sides are compared as they are written, since that keeps seconds only.
pub fn differs(told: &PodStatus, api: &PodStatus) -> bool {
    let own = |status: &PodStatus| {
        let conditions = status.conditions.iter().filter(|theirs| told.condition(&theirs.kind).is_some());
        // A list merged by type keeps no order, and the API server counts generations.
        let mut conditions: Vec<PodCondition> =
            conditions.map(|c| PodCondition { observed_generation: 0, ..c.clone() }).collect();
        conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
        serde_json::json!(PodStatus { observed_generation: 0, conditions, ..status.clone() })
    };
    told != api && own(told) != own(api)
}

fn verdict(kind: &'static str, failed: Option<(&str, String)>) -> Verdict {
    let (reason, message) = failed.map(|(r, m)| (r.to_owned(), m)).unzip();
    Verdict { kind, status: reason.is_none(), reason, message: message.filter(|m| !m.is_empty()) }
}

fn conditions(s: &State, status: &PodStatus, now: Now) -> Vec<PodCondition> {
    let completed = status.phase == "Succeeded";
    let listed = |names: Vec<&str>| names.join(" ");
    let uninitialized: Vec<&str> =
        status.init_container_statuses.iter().filter(|c| !initialized(s, c)).map(|c| c.name.as_str()).collect();
    let sidecars_unready = status
        .init_container_statuses
        .iter()
        .filter(|c| s.containers.get(&c.name).is_some_and(|x| x.role == Role::Sidecar) && !c.ready);
    let unready: Vec<&str> = status
        .container_statuses
        .iter()
        .filter(|c| !c.ready)
        .chain(sidecars_unready)
        .map(|c| c.name.as_str())
        .collect();
    let initialized = match uninitialized.is_empty() || completed {
        true => verdict("Initialized", None),
        false => {
            let text = format!("containers with incomplete status: [{}]", listed(uninitialized));
            verdict("Initialized", Some(("ContainersNotInitialized", text)))
        }
    };
    let containers = || match (status.phase.as_str(), unready.is_empty()) {
        ("Succeeded", _) => Some(("PodCompleted", String::new())),
        ("Failed", _) => Some(("PodFailed", String::new())),
        (_, true) => None,
        _ => Some(("ContainersNotReady", format!("containers with unready status: [{}]", listed(unready.clone())))),
    };
    let gate = s
        .pod
        .spec
        .readiness_gates
        .iter()
        .find(|g| s.pod.status.condition(&g.condition_type).is_none_or(|c| c.status != "True"));
    let ready = containers().or_else(|| {
        gate.map(|g| {
            let kind = &g.condition_type;
            (
                "ReadinessGatesNotReady",
                format!("the status of pod readiness gate \"{kind}\" is not \"True\", but False"),
            )
        })
    });
    let up = matches!(s.sandbox, Sandbox::Ready { .. });
    let mut sandbox = verdict("PodReadyToStartContainers", None);
    sandbox.status = up;
    [sandbox, initialized, verdict("Ready", ready), verdict("ContainersReady", containers())]
        .into_iter()
        .map(|v| dated(s, v, now))
        .collect()
}

fn initialized(s: &State, c: &ContainerStatus) -> bool {
    match s.containers.get(&c.name) {
        Some(x) if x.role == Role::Sidecar => c.started == Some(true) || x.restart_count() > 0,
        Some(x) => x.succeeded(),
        None => true,
    }
}

/// The time of a condition's last change survives as long as its status does.
fn dated(s: &State, v: Verdict, now: Now) -> PodCondition {
    let status = if v.status { "True" } else { "False" };
    let before = s.reported.condition(v.kind).filter(|c| c.status == status);
    PodCondition {
        kind: v.kind.to_owned(),
        status: status.to_owned(),
        last_probe_time: None,
        last_transition_time: before.and_then(|c| c.last_transition_time).or(Some(now.wall)),
        reason: v.reason,
        message: v.message,
        observed_generation: s.pod.metadata.generation,
    }
}
