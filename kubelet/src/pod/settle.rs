//! What a pod as a whole needs next, level-triggered: look, deadline, end, volumes, sandbox, then containers in order.

use super::event::{Effect, Level};
use super::state::{Look, Phase, Progress, Role, Sandbox, State, Stop, Waiting, Why};
use super::step::Out;
use super::{Now, drive, stop};
use crate::api::pod::RestartPolicy;
use crate::api::status::Terminated;

pub fn settle(s: &mut State, now: Now, out: &mut Out) {
    if s.look == Look::Done && s.containers.values().any(|c| c.phase == Phase::Unknown) {
        s.doubt(now.boot_ms);
    }
    match s.look {
        Look::InFlight => return,
        Look::Needed { not_before_ms } if not_before_ms > now.boot_ms => return out.wait(not_before_ms),
        Look::Needed { .. } => {
            s.look = Look::InFlight;
            return out.push(Effect::Look);
        }
        Look::Done => {}
    }
    deadline(s, now, out);
    if s.stop.is_none() && (s.frozen || all_done(s)) {
        let grace_s = s.pod.spec.termination_grace_period_seconds.unwrap_or(30);
        s.stop = Some(Stop::new(Why::Finished, grace_s, now));
    }
    if s.stop.is_some() {
        return stop::settle(s, now, out);
    }
    let prepared = prepare(s, now, out) && sandbox(s, now, out);
    if prepared || matches!(s.sandbox, Sandbox::Ready { .. }) {
        containers(s, now, out);
    }
}

fn deadline(s: &mut State, now: Now, out: &mut Out) {
    let (Some(limit_s), Some(start), None) = (s.pod.spec.active_deadline_seconds, s.start_time, &s.stop) else {
        return;
    };
    let left = start.add_secs(limit_s).since(now.wall);
    if left.is_zero() {
        let message = "Pod was active on the node longer than the specified deadline";
        out.tell(Level::Normal, "DeadlineExceeded", message.into(), None);
        stop::fail(s, "DeadlineExceeded", message.into(), now);
    } else {
        out.wait(now.boot_ms + u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    }
}

/// Whether a container that ended so starts again, by its role and the pod's policy.
pub fn restarts(role: Role, policy: RestartPolicy, end: &Terminated) -> bool {
    match role {
        Role::Ephemeral => false,
        Role::Sidecar => true,
        Role::Init => end.exit_code != 0 && policy != RestartPolicy::Never,
        Role::Main => match policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => end.exit_code != 0,
            RestartPolicy::Never => false,
        },
    }
}

/// An init container failed for good.
pub fn init_failed(s: &State) -> bool {
    let policy = s.pod.spec.restart_policy;
    s.containers.values().any(|c| match &c.phase {
        Phase::Exited(t) => c.role == Role::Init && t.exit_code != 0 && !restarts(c.role, policy, t),
        _ => false,
    })
}

/// No ordinary container will run again.
pub fn all_done(s: &State) -> bool {
    let policy = s.pod.spec.restart_policy;
    let mut mains = s.containers.values().filter(|c| c.role == Role::Main).peekable();
    if mains.peek().is_none() {
        return false;
    }
    init_failed(s) || mains.all(|c| matches!(&c.phase, Phase::Exited(t) if !restarts(c.role, policy, t)))
}

fn prepare(s: &mut State, now: Now, out: &mut Out) -> bool {
    match s.prepared {
        Progress::Done => return true,
        Progress::InFlight => {}
        Progress::Failed { retry_ms } if retry_ms > now.boot_ms => out.wait(retry_ms),
        Progress::Todo | Progress::Failed { .. } => {
            s.prepared = Progress::InFlight;
            out.push(Effect::Prepare);
        }
    }
    false
}

/// Brings the sandbox up, a new one where the old one died.
fn sandbox(s: &mut State, now: Now, out: &mut Out) -> bool {
    match s.sandbox.clone() {
        Sandbox::Ready { .. } => return true,
        Sandbox::Creating { .. } | Sandbox::Stopping { .. } => {}
        Sandbox::Dying { id, not_before_ms } => {
            if not_before_ms > now.boot_ms {
                out.wait(not_before_ms);
            } else {
                out.push(Effect::StopSandbox { id: id.clone() });
                s.sandbox = Sandbox::Stopping { id };
            }
        }
        // A start in the dead sandbox ends soon, one way or the other; then everything begins in a new one.
        Sandbox::None | Sandbox::Stopped { .. } if s.containers.values().any(|c| c.phase == Phase::Starting) => {}
        Sandbox::Stopped { id } => {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            out.tell(Level::Normal, "SandboxChanged", message.into(), None);
            out.push(Effect::DropSandbox { id });
            for c in s.containers.values_mut() {
                // Their runs went with the sandbox; init containers have to prepare the new one.
                c.dead.clear();
                if c.role == Role::Init
                    && matches!(c.phase, Phase::Exited(_))
                    && let Phase::Exited(t) = std::mem::replace(&mut c.phase, Phase::Waiting(Waiting::Turn))
                {
                    c.last = Some(t);
                }
            }
            run(s, out);
        }
        Sandbox::None if s.sandbox_retry_ms > now.boot_ms => out.wait(s.sandbox_retry_ms),
        Sandbox::None => run(s, out),
    }
    false
}

fn run(s: &mut State, out: &mut Out) {
    let attempt = s.next_sandbox;
    s.next_sandbox += 1;
    s.sandbox = Sandbox::Creating { attempt };
    out.push(Effect::RunSandbox { attempt });
}

/// Ephemeral containers at any time; init containers one after the other, sidecars as far as started, then all others.
fn containers(s: &mut State, now: Now, out: &mut Out) {
    // They are there to look into a pod that does not come up, too.
    for name in s.names(&[Role::Ephemeral]) {
        drive::drive(s, &name, now, out);
    }
    let mains_ran = s.containers.values().any(|c| c.role == Role::Main && c.is_active());
    for name in s.names(&[Role::Init, Role::Sidecar]) {
        let Some(c) = s.containers.get(&name) else { continue };
        if c.role == Role::Init && c.succeeded() {
            continue;
        }
        drive::drive(s, &name, now, out);
        let started = s.running(&name).is_some_and(|r| r.started);
        // Once the ordinary containers run, a restarting sidecar holds nobody back.
        let is_sidecar = s.containers.get(&name).is_some_and(|c| c.role == Role::Sidecar);
        if !(is_sidecar && (started || mains_ran)) {
            return;
        }
    }
    for name in s.names(&[Role::Main]) {
        drive::drive(s, &name, now, out);
    }
}
