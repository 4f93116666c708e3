//! What a look at the runtime means: exits, losses, and the adoption of what already runs. Decides; asks for little.

use std::sync::Arc;

use super::event::{Effect, PodSeen};
use super::state::{Container, Look, Phase, Sandbox, State, Waiting};
use super::step::Out;
use super::{Now, drive, probes};
use crate::api;
use crate::api::PodStatus;
use crate::api::status::Terminated;
use crate::runtime::{ContainerSeen, RunState};

pub fn absorb(s: &mut State, now: Now, seen: PodSeen, out: &mut Out) {
    if seen.taken_ms < s.doubt_ms {
        return;
    }
    let first = s.look != Look::Done;
    s.look = Look::Done;
    s.looked = true;
    sandboxes(s, now, &seen, out);
    let pod = Arc::clone(&s.pod);
    let mains_run = seen.containers.iter().any(|c| pod.spec.containers.iter().any(|m| m.name == c.name));
    for spec in pod.all_containers() {
        let Some(c) = s.containers.get_mut(&spec.name) else { continue };
        let mut runs: Vec<&ContainerSeen> = seen.containers.iter().filter(|r| r.name == spec.name).collect();
        runs.sort_by_key(|r| (r.attempt, r.created_at_ns));
        match &mut c.phase {
            Phase::Starting => c.early = runs.pop().filter(|r| r.attempt + 1 == c.next_attempt).cloned(),
            Phase::Running(r) => match runs.iter().find(|seen| seen.id == r.id) {
                Some(seen) if seen.state == RunState::Exited => exit(c, seen, now),
                Some(_) => {}
                None if seen.taken_ms > r.since_ms => lost(c, now),
                None => {}
            },
            Phase::Unknown => adopt(c, spec, &runs, &s.reported, false, now, out),
            Phase::Waiting(Waiting::Turn) if first && c.next_attempt == 0 => {
                adopt(c, spec, &runs, &s.reported, mains_run, now, out);
            }
            Phase::Waiting(Waiting::Start { .. }) => {
                if runs.iter().any(|r| r.attempt >= c.next_attempt && r.state != RunState::Created) {
                    adopt(c, spec, &runs, &s.reported, false, now, out);
                } else {
                    begin_again(&runs, out);
                }
            }
            Phase::Waiting(_) | Phase::FindingImage | Phase::Exited(_) => {}
        }
    }
}

fn sandboxes(s: &mut State, now: Now, seen: &PodSeen, out: &mut Out) {
    let newest = seen.sandboxes.iter().max_by_key(|b| (b.attempt, b.created_at_ns));
    if let Some(newest) = newest {
        s.next_sandbox = s.next_sandbox.max(newest.attempt + 1);
    }
    match (&s.sandbox, newest) {
        (Sandbox::None, Some(newest)) => {
            s.sandbox = if newest.ready {
                s.ips.clone_from(&newest.ips);
                Sandbox::Ready { id: newest.id.clone(), since_ms: now.boot_ms }
            } else {
                Sandbox::Dying { id: newest.id.clone(), not_before_ms: now.boot_ms }
            };
        }
        (Sandbox::Ready { id, since_ms, .. }, _) => match seen.sandboxes.iter().find(|b| b.id == *id) {
            Some(b) if !b.ready => s.sandbox = Sandbox::Dying { id: id.clone(), not_before_ms: now.boot_ms },
            None if seen.taken_ms > *since_ms => s.sandbox = Sandbox::None,
            Some(_) | None => {}
        },
        _ => {}
    }
    let Some(current) = s.sandbox_id() else { return };
    let Some(attempt) = seen.sandboxes.iter().find(|b| b.id == current).map(|b| b.attempt) else { return };
    for old in seen.sandboxes.iter().filter(|b| b.attempt < attempt) {
        out.push(Effect::DropSandbox { id: old.id.clone() });
    }
}

/// How a run ended, in Kubernetes' words. A runtime also says `OOMKilled` of a bystander whose pod ran out of memory:
/// only a container that was killed was killed by that.
fn terminated(seen: &ContainerSeen, now: Now) -> Terminated {
    let reason = match (seen.reason.as_str(), seen.exit_code) {
        ("OOMKilled", 137) => "OOMKilled",
        (_, 0) => "Completed",
        ("" | "OOMKilled" | "Completed", _) => "Error",
        (other, _) => other,
    };
    Terminated {
        exit_code: seen.exit_code,
        signal: None,
        reason: Some(reason.to_owned()),
        message: Some(seen.message.clone()).filter(|m| !m.is_empty()),
        started_at: seen.started_at,
        finished_at: Some(seen.finished_at.unwrap_or(now.wall)),
        container_id: Some(seen.id.clone()),
    }
}

pub fn exit(c: &mut Container, seen: &ContainerSeen, now: Now) {
    c.phase = Phase::Exited(terminated(seen, now));
}

/// Nobody can say how it ended.
pub fn lost(c: &mut Container, now: Now) {
    let (id, started_at) = match c.running() {
        Some(r) => (Some(r.id.clone()), Some(r.at)),
        None => (None, None),
    };
    c.phase = Phase::Exited(Terminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".into()),
        message: Some("The container could not be located when the pod was terminated".into()),
        started_at,
        finished_at: Some(now.wall),
        container_id: id,
        ..Terminated::default()
    });
}

/// `containerd://id` to the plain id.
fn plain(mut t: Terminated) -> Terminated {
    t.container_id = t.container_id.map(|id| id.rsplit("://").next().unwrap_or_default().to_owned());
    t
}

/// Removes what was created by a call whose end nobody saw: it holds the name of the next attempt.
fn begin_again(runs: &[&ContainerSeen], out: &mut Out) {
    for made in runs.iter().filter(|r| r.state == RunState::Created) {
        out.push(Effect::DropContainer { id: made.id.clone() });
    }
}

/// Takes over what the runtime has of a container that the agent knew nothing sure about.
fn adopt(
    c: &mut Container,
    spec: &api::Container,
    runs: &[&ContainerSeen],
    status: &PodStatus,
    mains_run: bool,
    now: Now,
    out: &mut Out,
) {
    let before = status.container(&spec.name);
    begin_again(runs, out);
    let mut runs: Vec<&ContainerSeen> = runs.iter().copied().filter(|r| r.state != RunState::Created).collect();
    let Some(newest) = runs.pop() else {
        match c.phase {
            Phase::Unknown => {
                c.next_attempt = c.next_attempt.saturating_sub(1);
                c.phase = Phase::Waiting(Waiting::Turn);
            }
            _ => recall(c, before, mains_run, now),
        }
        return;
    };
    if let Some(prior) = runs.pop() {
        c.last = Some(terminated(prior, now));
        c.dead = runs.iter().map(|r| r.id.clone()).chain([prior.id.clone()]).collect();
    } else if c.last.is_none() {
        c.last = before.and_then(|b| b.last_state.terminated.clone()).map(plain);
    }
    c.next_attempt = newest.attempt + 1;
    if newest.state == RunState::Exited {
        c.image_id = newest.image_id.clone();
        return exit(c, newest, now);
    }
    drive::run(c, spec, newest, now);
    let same = before.filter(|b| b.container_id.as_deref().is_some_and(|id| id.ends_with(&newest.id)));
    if let Some(r) = c.running_mut() {
        r.hooked = true;
        r.started |= same.is_some_and(|b| b.started == Some(true));
        r.ready |= r.started && same.is_some_and(|b| b.ready);
        probes::refresh(r, spec);
    }
}

/// The runtime has nothing of it: what was reported last is all that is known.
fn recall(c: &mut Container, before: Option<&api::status::ContainerStatus>, mains_run: bool, now: Now) {
    let Some(before) = before.filter(|b| b.container_id.is_some()) else {
        if mains_run && c.role == super::Role::Init {
            // It must have succeeded, or the others would not have started.
            c.next_attempt = 1;
            c.phase = Phase::Exited(Terminated { reason: Some("Completed".into()), ..Terminated::default() });
        }
        return;
    };
    c.next_attempt = before.restart_count + 1;
    c.image_id = before.image_id.clone();
    c.last = before.last_state.terminated.clone().map(plain);
    match &before.state.terminated {
        Some(t) => c.phase = Phase::Exited(plain(t.clone())),
        None if before.state.running.is_some() => lost(c, now),
        None => {}
    }
}
