//! What one container needs next: its image, a start, a restart after its back-off, its probes. Decides; does nothing.

use std::sync::Arc;

use super::event::{Cause, Effect, Hook, Level};
use super::probes::{self, Probes};
use super::state::{Container, Phase, Running, Sandbox, State, Waiting};
use super::step::Out;
use super::{Now, observe, settle, stop};
use crate::api;
use crate::api::Pod;
use crate::runtime::{ContainerSeen, RunState};

/// For how long a failed pull reads as its error before it reads as waiting for the next try.
const SHOW_ERROR_MS: u64 = 1_500;

pub fn drive(s: &mut State, name: &str, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    match &mut c.phase {
        Phase::FindingImage | Phase::Starting | Phase::Unknown => {}
        Phase::Running(r) => tend(r, &pod, spec, now, out),
        Phase::Waiting(w) => {
            let retry_ms = waits_until(w, spec, now, out);
            if retry_ms > now.boot_ms {
                out.wait(retry_ms);
            } else {
                find_image(c, name, out);
            }
        }
        Phase::Exited(end) if settle::restarts(c.role, pod.spec.restart_policy, end) => {
            let ended_ms = end.finished_at.map_or(now.boot_ms, |at| now.boot_at(at));
            let retry_ms = c.crashes.ready_at(ended_ms);
            c.last = Some(end.clone());
            if retry_ms > now.boot_ms {
                c.phase = Phase::Waiting(Waiting::CrashLoop { retry_ms });
                let text = format!("Back-off restarting failed container {name} in pod {}", pod.label());
                out.tell(Level::Warning, "BackOff", text, Some(name));
                out.wait(retry_ms);
            } else {
                find_image(c, name, out);
            }
        }
        Phase::Exited(_) => {}
    }
}

fn waits_until(w: &mut Waiting, spec: &api::Container, now: Now, out: &mut Out) -> u64 {
    match w {
        Waiting::Turn => 0,
        Waiting::Start { retry_ms, .. } | Waiting::CrashLoop { retry_ms } => *retry_ms,
        Waiting::Image { reason, since_ms, retry_ms, told, .. } => {
            let show_ms = *since_ms + SHOW_ERROR_MS;
            if *told || *reason != "ErrImagePull" {
            } else if now.boot_ms < show_ms {
                out.wait(show_ms);
            } else {
                *told = true;
                out.tell(
                    Level::Normal,
                    "BackOff",
                    format!("Back-off pulling image \"{}\"", spec.image),
                    Some(&spec.name),
                );
                out.tell(Level::Warning, "Failed", "Error: ImagePullBackOff".into(), Some(&spec.name));
            }
            *retry_ms
        }
    }
}

fn find_image(c: &mut Container, name: &str, out: &mut Out) {
    c.phase = Phase::FindingImage;
    out.push(Effect::Image { name: name.to_owned() });
}

/// The image is there: start the next attempt, unless the ground went away meanwhile.
pub fn start(s: &mut State, name: &str, now: Now, out: &mut Out) {
    let stopping = s.stop.is_some();
    let sandbox = match &s.sandbox {
        Sandbox::Ready { id, .. } => Some(id.clone()),
        _ => None,
    };
    let Some(c) = s.containers.get_mut(name) else { return };
    let Some(sandbox) = sandbox.filter(|_| !stopping) else {
        c.phase = Phase::Waiting(Waiting::Turn);
        return;
    };
    if let Some(end) = &c.last {
        let ended_ms = end.finished_at.map_or(now.boot_ms, |at| now.boot_at(at));
        c.crashes.bump(now.boot_ms, ended_ms);
    }
    let attempt = c.next_attempt;
    c.next_attempt += 1;
    c.early = None;
    c.phase = Phase::Starting;
    out.push(Effect::Start { name: name.to_owned(), attempt, sandbox });
    drop_old_runs(c, out);
}

/// One past run is kept, as the runtime's memory of how it ended; also when the next one never gets to run.
fn drop_old_runs(c: &mut Container, out: &mut Out) {
    if let Some(id) = c.last.as_ref().and_then(|t| t.container_id.clone()) {
        c.dead.retain(|d| *d != id);
        c.dead.push(id);
    }
    while c.dead.len() > 1 {
        out.push(Effect::DropContainer { id: c.dead.remove(0) });
    }
}

/// The runtime started it.
pub fn started(s: &mut State, name: &str, seen: ContainerSeen, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    if c.phase != Phase::Starting || seen.attempt + 1 != c.next_attempt {
        return;
    }
    out.tell(Level::Normal, "Created", format!("Created container: {name}"), Some(name));
    out.tell(Level::Normal, "Started", format!("Started container {name}"), Some(name));
    run(c, spec, &seen, now);
    if let Some(r) = c.running_mut().filter(|r| !r.hooked) {
        let limit_s = pod.spec.termination_grace_period_seconds.unwrap_or(30).max(600);
        out.push(Effect::RunHook { name: name.to_owned(), id: r.id.clone(), hook: Hook::PostStart, limit_s });
    }
    if let Some(early) = c.early.take().filter(|e| e.id == seen.id && e.state == RunState::Exited) {
        observe::exit(c, &early, now);
    }
    if !matches!(s.sandbox, Sandbox::Ready { .. }) {
        // Its sandbox died meanwhile, and the container with it or soon.
        s.doubt(now.boot_ms);
    }
}

/// Takes a container up as running, new or adopted.
pub fn run(c: &mut Container, spec: &api::Container, seen: &ContainerSeen, now: Now) {
    if !seen.image_id.is_empty() {
        c.image_id = seen.image_id.clone();
    }
    let mut r = Running {
        id: seen.id.clone(),
        image: if seen.image.is_empty() { spec.image.clone() } else { seen.image.clone() },
        at: seen.started_at.unwrap_or(now.wall),
        since_ms: now.boot_ms,
        hooked: spec.lifecycle.as_ref().is_none_or(|l| l.post_start.is_none()),
        started: false,
        ready: false,
        probes: Probes::new(spec, now.boot_ms),
        stop: None,
    };
    probes::refresh(&mut r, spec);
    c.phase = Phase::Running(Box::new(r));
}

fn tend(r: &mut Running, pod: &Pod, spec: &api::Container, now: Now, out: &mut Out) {
    if r.stop.is_none() && r.image != spec.image {
        let grace_s = pod.spec.termination_grace_period_seconds.unwrap_or(30);
        stop::begin(r, spec, Cause::Changed, grace_s, now, out);
    }
    stop::tend(r, spec, now, out);
    probes::due(r, spec, now, out);
}
