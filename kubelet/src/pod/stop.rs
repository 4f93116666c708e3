//! Ending: one container (hook, SIGTERM, SIGKILL by the runtime) and the whole pod, in order. Decides; kills nothing.

use std::sync::Arc;

use super::event::{Cause, Effect, Hook, Level, ProbeKind};
use super::state::{Phase, Progress, Role, Running, Sandbox, State, Stop, StopCall, Waiting, Why};
use super::step::Out;
use super::{Now, probes};
use crate::api::Container;

/// What a container gets at least after its pre-stop hook used up the grace period.
const AFTER_HOOK_S: i64 = 2;

/// Begins to stop one container.
pub fn begin(r: &mut Running, spec: &Container, cause: Cause, grace_s: i64, now: Now, out: &mut Out) {
    let name = &spec.name;
    let message = match &cause {
        Cause::PodStops => format!("Stopping container {name}"),
        Cause::Probe(ProbeKind::Startup) => format!("Container {name} failed startup probe, will be restarted"),
        Cause::Probe(_) => format!("Container {name} failed liveness probe, will be restarted"),
        Cause::Changed => format!("Container {name} definition changed, will be restarted"),
        Cause::PostStartFailed => "FailedPostStartHook".to_owned(),
    };
    out.tell(Level::Normal, "Killing", message, Some(name));
    let has_hook = spec.lifecycle.as_ref().is_some_and(|l| l.pre_stop.is_some()) && grace_s > 0;
    if has_hook {
        out.push(Effect::RunHook { name: name.clone(), id: r.id.clone(), hook: Hook::PreStop, limit_s: grace_s });
    }
    r.stop = Some(StopCall {
        cause,
        grace_s,
        since_ms: now.boot_ms,
        hook: has_hook.then_some(Hook::PreStop),
        call: Progress::Todo,
        called_grace_s: 0,
    });
    tend(r, spec, now, out);
}

/// Follows a stop under way: the hook, then the runtime's call, again when that failed.
pub fn tend(r: &mut Running, spec: &Container, now: Now, out: &mut Out) {
    let Some(call) = r.stop.as_mut() else { return };
    let deadline_ms = call.since_ms + u64::try_from(call.grace_s).unwrap_or(0) * 1000;
    if call.hook.is_some() && deadline_ms > now.boot_ms {
        return out.wait(deadline_ms);
    }
    match call.call {
        Progress::InFlight | Progress::Done => return,
        Progress::Failed { retry_ms } if retry_ms > now.boot_ms => return out.wait(retry_ms),
        Progress::Todo | Progress::Failed { .. } => {}
    }
    let left_s = i64::try_from(deadline_ms.saturating_sub(now.boot_ms).div_ceil(1000)).unwrap_or(0);
    let had_hook = spec.lifecycle.as_ref().is_some_and(|l| l.pre_stop.is_some()) && call.grace_s > 0;
    call.called_grace_s = if had_hook { left_s.max(AFTER_HOOK_S) } else { left_s };
    call.call = Progress::InFlight;
    out.push(Effect::Stop { name: spec.name.clone(), id: r.id.clone(), grace_s: call.called_grace_s });
}

/// Asks for the whole pod's end, or for an earlier one.
pub fn request(s: &mut State, why: Why, grace_s: i64, now: Now, out: &mut Out) {
    let Some(stop) = s.stop.as_mut() else {
        s.stop = Some(Stop::new(why, grace_s, now));
        return;
    };
    let settled = matches!(stop.why, Why::Finished | Why::Failed { .. });
    if settled || why == Why::Vanished {
        stop.why = why;
        // A call that the API has not answered says nothing about the new reason.
        stop.deletion = Progress::Todo;
    }
    if grace_s < stop.grace_s {
        stop.grace_s = grace_s;
        shorten(s, grace_s, now, out);
    }
}

fn shorten(s: &mut State, grace_s: i64, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    for spec in pod.all_containers() {
        let Some(r) = s.containers.get_mut(&spec.name).and_then(|c| c.running_mut()) else { continue };
        let Some(call) = r.stop.as_mut().filter(|call| grace_s < call.grace_s) else { continue };
        call.since_ms = now.boot_ms;
        call.grace_s = grace_s;
        if call.call == Progress::InFlight {
            call.called_grace_s = grace_s;
            out.push(Effect::Stop { name: spec.name.clone(), id: r.id.clone(), grace_s });
        }
    }
}

/// The pod fails with these words, once its containers have stopped.
pub fn fail(s: &mut State, reason: &str, message: String, now: Now) {
    if s.stop.is_some() {
        return;
    }
    s.failure = Some((reason.to_owned(), message.clone()));
    let grace_s = s.pod.spec.termination_grace_period_seconds.unwrap_or(30);
    s.stop = Some(Stop::new(Why::Failed { reason: reason.to_owned(), message }, grace_s, now));
}

pub fn settle(s: &mut State, now: Now, out: &mut Out) {
    if !containers_ended(s, now, out) || !sandbox_ended(s, now, out) || s.prepared == Progress::InFlight {
        return;
    }
    let sandboxes: Vec<String> = s.sandbox_id().map(str::to_owned).into_iter().collect();
    let Some(stop) = s.stop.as_mut() else { return };
    let leaves = matches!(stop.why, Why::Deleted | Why::Vanished);
    if leaves && !run(&mut stop.removal, now, out, || Effect::Remove { sandboxes }) {
        return;
    }
    if !run(&mut stop.tear_down, now, out, || Effect::TearDown) {
        return;
    }
    match stop.why {
        Why::Finished | Why::Failed { .. } => {}
        Why::Deleted => {
            if run(&mut stop.deletion, now, out, || Effect::Delete) {
                forget(stop, out);
            }
        }
        Why::Vanished => forget(stop, out),
    }
}

fn forget(stop: &mut Stop, out: &mut Out) {
    if !stop.forgotten {
        stop.forgotten = true;
        out.push(Effect::Forget);
    }
}

/// Whether a step is done; begins it, or again after a failure.
fn run(p: &mut Progress, now: Now, out: &mut Out, effect: impl FnOnce() -> Effect) -> bool {
    match *p {
        Progress::Done => return true,
        Progress::InFlight => {}
        Progress::Failed { retry_ms } if retry_ms > now.boot_ms => out.wait(retry_ms),
        Progress::Todo | Progress::Failed { .. } => {
            *p = Progress::InFlight;
            out.push(effect());
        }
    }
    false
}

/// Ordinary containers first, all at once; then sidecars, the last one first.
fn containers_ended(s: &mut State, now: Now, out: &mut Out) -> bool {
    let mut busy = false;
    for name in s.names(&[Role::Init, Role::Main, Role::Ephemeral]) {
        busy |= container_busy(s, &name, now, out);
    }
    if busy {
        for name in s.names(&[Role::Sidecar]) {
            keep_probing(s, &name, now, out);
        }
        return false;
    }
    for name in s.names(&[Role::Sidecar]).into_iter().rev() {
        if container_busy(s, &name, now, out) {
            return false;
        }
    }
    true
}

fn keep_probing(s: &mut State, name: &str, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    if let Some(r) = c.running_mut() {
        probes::due(r, spec, now, out);
    }
}

fn container_busy(s: &mut State, name: &str, now: Now, out: &mut Out) -> bool {
    let pod = Arc::clone(&s.pod);
    let grace_s = s.stop.as_ref().map_or(30, |stop| {
        let gone_s = i64::try_from(now.boot_ms.saturating_sub(stop.since_ms) / 1000).unwrap_or(i64::MAX);
        (stop.grace_s - gone_s).max(i64::from(stop.grace_s > 0))
    });
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return false };
    match &mut c.phase {
        Phase::Starting | Phase::Unknown => true,
        Phase::FindingImage => {
            c.phase = Phase::Waiting(Waiting::Turn);
            false
        }
        Phase::Waiting(_) | Phase::Exited(_) => false,
        Phase::Running(r) => {
            if r.stop.is_none() {
                begin(r, spec, Cause::PodStops, grace_s, now, out);
            }
            tend(r, spec, now, out);
            probes::due(r, spec, now, out);
            true
        }
    }
}

fn sandbox_ended(s: &mut State, now: Now, out: &mut Out) -> bool {
    match s.sandbox.clone() {
        Sandbox::None | Sandbox::Stopped { .. } => return true,
        Sandbox::Creating { .. } | Sandbox::Stopping { .. } => {}
        Sandbox::Dying { not_before_ms, .. } if not_before_ms > now.boot_ms => out.wait(not_before_ms),
        Sandbox::Ready { id, .. } | Sandbox::Dying { id, .. } => {
            out.push(Effect::StopSandbox { id: id.clone() });
            s.sandbox = Sandbox::Stopping { id };
        }
    }
    false
}
