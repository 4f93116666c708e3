//! The machine's one door: takes an event in, then settles. Decides how each event changes what is known.

use std::sync::Arc;

use super::event::{Effect, Event, Hook, ImageOutcome, Level, Outcome, ProbeKind, StartFailure};
use super::state::{Imposed, Look, Phase, Progress, Sandbox, State, Stop, Waiting, Why};
use super::{Now, drive, observe, probes, settle, status, stop};
use crate::api::status::Terminated;
use crate::api::{Pod, PodStatus};
use crate::runtime::{ContainerSeen, RunState, RuntimeError, SandboxSeen};

/// How long the API may show another status than it was told. Kubernetes' kubelet compares every ten seconds.
const RETELL_MS: u64 = 5_000;

/// A pod that starts within this time is told once, when it runs, and not before that it is about to: most pods do, and each
/// report costs the API server more than the pod's binding. Kubernetes' kubelet tells both.
const QUIET_START_MS: u64 = 1_000;

/// Collects effects, and the earliest moment at which the machine wants to look again.
#[derive(Debug, Default)]
pub struct Out {
    pub effects: Vec<Effect>,
    pub wake_ms: Option<u64>,
}

impl Out {
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
    pub fn wait(&mut self, until_ms: u64) {
        self.wake_ms = Some(self.wake_ms.map_or(until_ms, |w| w.min(until_ms)));
    }
    pub fn tell(&mut self, level: Level, reason: &'static str, message: String, container: Option<&str>) {
        self.push(Effect::Tell { level, reason, message, container: container.map(str::to_owned) });
    }
}

/// Takes one event and returns what to do, in order. `state.wake_ms` says when to send the next `Tick`.
pub fn step(s: &mut State, now: Now, event: Event) -> Vec<Effect> {
    let mut out = Out::default();
    s.start_time.get_or_insert(now.wall);
    s.since_ms.get_or_insert(now.boot_ms);
    // After a restart the last report may not have reached the API; and a report that was overruled holds again.
    let overruled = matches!(&event, Event::Desired(pod) if status::overruled(&s.reported, &pod.status));
    let anyway = !s.looked || overruled;
    let untold_end = s.frozen && matches!(&event, Event::Desired(pod) if !pod.status.is_final());
    let heard = matches!(&event, Event::Desired(_));
    absorb(s, now, event, &mut out);
    settle::settle(s, now, &mut out);
    if s.looked && !s.frozen {
        report(s, now, anyway, &mut out);
    }
    if untold_end {
        tell_status(s.reported.clone(), &mut out);
    }
    retell(s, now, heard, &mut out);
    s.wake_ms = out.wake_ms;
    out.effects
}

/// Tells the status that is new, or any.
fn report(s: &mut State, now: Now, anyway: bool, out: &mut Out) {
    let status = status::of(s, now);
    if status == s.reported && !anyway {
        return;
    }
    let quiet_until_ms = s.since_ms.map_or(0, |since| since + QUIET_START_MS);
    if !anyway && now.boot_ms < quiet_until_ms && s.only_begins() {
        return out.wait(quiet_until_ms);
    }
    s.reported = status.clone();
    tell_status(status, out);
}

/// A report on its way is not contradicted by what the API shows meanwhile, so a difference has to last. It is told once for
/// every change that the API shows: a server that does not take a report is not asked for ever.
fn retell(s: &mut State, now: Now, heard: bool, out: &mut Out) {
    let told = out.effects.iter().any(|effect| matches!(effect, Effect::Status(_)));
    let silent = s.frozen || !s.looked || s.stop.as_ref().is_some_and(|stop| stop.why == Why::Vanished);
    if told || silent {
        s.retell_ms = None;
        return;
    }
    if heard {
        let differs = status::differs(&s.reported, &s.pod.status);
        s.retell_ms = differs.then(|| s.retell_ms.unwrap_or(now.boot_ms + RETELL_MS));
    }
    match s.retell_ms {
        Some(due_ms) if due_ms <= now.boot_ms => {
            s.retell_ms = None;
            tell_status(s.reported.clone(), out);
        }
        Some(due_ms) => out.wait(due_ms),
        None => {}
    }
}

/// Before `Delete` and `Forget`, after everything that caused it.
fn tell_status(status: PodStatus, out: &mut Out) {
    let at = out.effects.iter().position(|e| matches!(e, Effect::Delete | Effect::Forget));
    out.effects.insert(at.unwrap_or(out.effects.len()), Effect::Status(Box::new(status)));
}

fn absorb(s: &mut State, now: Now, event: Event, out: &mut Out) {
    match event {
        Event::Tick => {}
        Event::Desired(pod) => desired(s, pod, now, out),
        Event::Vanished => vanished(s, now, out),
        Event::Evict { reason, message } => {
            out.tell(Level::Warning, reason, message.clone(), None);
            stop::fail(s, reason, message, now);
        }
        Event::Observed(seen) => observe::absorb(s, now, seen, out),
        Event::LookFailed => s.look = Look::Needed { not_before_ms: now.boot_ms + 1_000 },
        Event::Prepared(result) => prepared(s, result, now, out),
        Event::SandboxUp { attempt, result } => sandbox_up(s, attempt, result, now, out),
        Event::SandboxStopped { id, result } => sandbox_stopped(s, id, result, now),
        Event::PullStarted { name } => {
            if let Some(spec) = s.pod.container(&name) {
                out.tell(Level::Normal, "Pulling", format!("Pulling image \"{}\"", spec.image), Some(&name));
            }
        }
        Event::Image { name, outcome } => image(s, &name, outcome, now, out),
        Event::Started { name, attempt, id, image_id, at } => {
            let seen = ContainerSeen { id, attempt, image_id, started_at: Some(at), ..ContainerSeen::default() };
            drive::started(s, &name, seen, now, out);
        }
        Event::StartFailed { name, attempt, failure } => start_failed(s, &name, attempt, failure, now, out),
        Event::HookDone { name, id, hook, result } => hook_done(s, &name, &id, hook, result, now, out),
        Event::Probed { name, id, kind, outcome } => probed(s, &name, &id, kind, outcome, now, out),
        Event::Stopped { name, id, result } => stopped(s, &name, &id, result, now),
        Event::Removed(result) => {
            progress(s.stop.as_mut().map(|t| &mut t.removal), result.is_ok(), now);
        }
        Event::TornDown(result) => {
            if let Err(message) = &result {
                out.tell(Level::Warning, "FailedUnMount", message.clone(), None);
            }
            progress(s.stop.as_mut().map(|t| &mut t.tear_down), result.is_ok(), now);
        }
        Event::Deleted(result) => progress(s.stop.as_mut().map(|t| &mut t.deletion), result.is_ok(), now),
    }
}

fn progress(slot: Option<&mut Progress>, ok: bool, now: Now) {
    if let Some(slot) = slot {
        *slot = if ok { Progress::Done } else { Progress::Failed { retry_ms: now.boot_ms + 1_000 } };
    }
}

fn desired(s: &mut State, pod: Arc<Pod>, now: Now, out: &mut Out) {
    s.pod = pod;
    s.sync_containers();
    impose(s, now, out);
    if s.pod.metadata.deletion_timestamp.is_some() {
        let grace_s = s.pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        stop::request(s, Why::Deleted, grace_s, now, out);
    }
}

/// A final phase that the agent never told is somebody else's word, as the pod collector's: the pod ends.
fn impose(s: &mut State, now: Now, out: &mut Out) {
    if s.frozen || s.imposed.is_some() || s.reported.is_final() || !s.pod.is_terminal() {
        return;
    }
    let status = &s.pod.status;
    s.imposed = Some(if status.phase == "Failed" { Imposed::Failed } else { Imposed::Succeeded });
    s.failure = status.reason.clone().map(|reason| (reason, status.message.clone().unwrap_or_default()));
    let grace_s = s.pod.spec.termination_grace_period_seconds.unwrap_or(30);
    stop::request(s, Why::Finished, grace_s, now, out);
}

fn vanished(s: &mut State, now: Now, out: &mut Out) {
    // A pod that was stopping already was deleted by force: somebody wants it gone at once.
    let grace_s = if s.stop.is_some() { 1 } else { s.pod.spec.termination_grace_period_seconds.unwrap_or(30) };
    stop::request(s, Why::Vanished, grace_s, now, out);
}

fn prepared(s: &mut State, result: Result<(), String>, now: Now, out: &mut Out) {
    match result {
        Ok(()) => {
            s.prepared = Progress::Done;
            s.retries.reset();
        }
        Err(message) => {
            out.tell(Level::Warning, "FailedMount", message, None);
            s.retries.bump(now.boot_ms, now.boot_ms);
            s.prepared = Progress::Failed { retry_ms: now.boot_ms + s.retries.delay_ms() };
        }
    }
}

fn sandbox_up(s: &mut State, attempt: u32, result: Result<SandboxSeen, RuntimeError>, now: Now, out: &mut Out) {
    if s.sandbox != (Sandbox::Creating { attempt }) {
        return;
    }
    match result {
        Ok(seen) => {
            s.retries.reset();
            s.ips = seen.ips;
            s.sandbox = Sandbox::Ready { id: seen.id, since_ms: now.boot_ms };
        }
        Err(e) => {
            out.tell(Level::Warning, "FailedCreatePodSandBox", format!("Failed to create pod sandbox: {e}"), None);
            s.retries.bump(now.boot_ms, now.boot_ms);
            s.sandbox = Sandbox::None;
            s.sandbox_retry_ms = now.boot_ms + s.retries.delay_ms();
            if matches!(e, RuntimeError::Unknown(_)) {
                s.doubt(now.boot_ms);
            }
        }
    }
}

fn sandbox_stopped(s: &mut State, id: String, result: Result<(), RuntimeError>, now: Now) {
    if s.sandbox != (Sandbox::Stopping { id: id.clone() }) {
        return;
    }
    s.sandbox = match result {
        Ok(()) => Sandbox::Stopped { id },
        Err(_) => Sandbox::Dying { id, not_before_ms: now.boot_ms + 1_000 },
    };
    if s.containers.values().any(|c| c.running().is_some()) {
        // Its containers died with it; how, the runtime knows.
        s.doubt(now.boot_ms);
    }
}

fn image(s: &mut State, name: &str, outcome: ImageOutcome, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    if c.phase != Phase::FindingImage {
        return;
    }
    match outcome {
        ImageOutcome::Present => {
            let text = format!("Container image \"{}\" already present on machine", spec.image);
            out.tell(Level::Normal, "Pulled", text, Some(name));
        }
        ImageOutcome::Pulled { took_ms, size_bytes } => {
            let took = format!("{}.{:03}s", took_ms / 1000, took_ms % 1000);
            let text = format!(
                "Successfully pulled image \"{}\" in {took} ({took} including waiting). Image size: {size_bytes} bytes.",
                spec.image
            );
            out.tell(Level::Normal, "Pulled", text, Some(name));
        }
        ImageOutcome::Failed { reason, message } => {
            let text = match reason {
                "ErrImagePull" => format!("Failed to pull image \"{}\": {message}", spec.image),
                _ => message.clone(),
            };
            out.tell(Level::Warning, "Failed", text, Some(name));
            out.tell(Level::Warning, "Failed", format!("Error: {reason}"), Some(name));
            c.pulls.bump(now.boot_ms, now.boot_ms);
            let retry_ms = now.boot_ms + c.pulls.delay_ms();
            c.phase = Phase::Waiting(Waiting::Image { reason, message, since_ms: now.boot_ms, retry_ms, told: false });
            return;
        }
    }
    c.pulls.reset();
    drive::start(s, name, now, out);
}

fn start_failed(s: &mut State, name: &str, attempt: u32, failure: StartFailure, now: Now, out: &mut Out) {
    let Some(c) = s.containers.get_mut(name) else { return };
    if c.phase != Phase::Starting || attempt + 1 != c.next_attempt {
        return;
    }
    let (reason, message) = match failure {
        StartFailure::Config(m) => ("CreateContainerConfigError", m),
        StartFailure::Create(m) => ("CreateContainerError", m),
        StartFailure::Unknown(_) => {
            c.phase = Phase::Unknown;
            s.doubt(now.boot_ms);
            return;
        }
        StartFailure::Run { id, message } => {
            out.tell(Level::Warning, "Failed", format!("Error: {message}"), Some(name));
            c.phase = Phase::Exited(Terminated {
                exit_code: 128,
                reason: Some("StartError".into()),
                message: Some(message),
                finished_at: Some(now.wall),
                container_id: Some(id),
                ..Terminated::default()
            });
            return;
        }
    };
    // The container never existed, so this attempt does not count.
    c.next_attempt = attempt;
    out.tell(Level::Warning, "Failed", format!("Error: {message}"), Some(name));
    let retry_ms = now.boot_ms + 2_000;
    c.phase = Phase::Waiting(Waiting::Start { reason, message, retry_ms });
    if reason == "CreateContainerError" {
        // What an interrupted call left behind may be in the way.
        s.doubt(now.boot_ms);
    }
}

fn hook_done(s: &mut State, name: &str, id: &str, hook: Hook, result: Result<(), String>, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(30);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    let Some(r) = c.running_mut().filter(|r| r.id == id) else { return };
    match hook {
        Hook::PreStop => {
            if let Some(call) = r.stop.as_mut() {
                call.hook = None;
            }
            if let Err(e) = result {
                out.tell(Level::Warning, "FailedPreStopHook", format!("PreStopHook failed: {e}"), Some(name));
            }
        }
        Hook::PostStart => match result {
            Ok(()) => {
                r.hooked = true;
                probes::refresh(r, spec);
            }
            Err(e) => {
                out.tell(Level::Warning, "FailedPostStartHook", format!("PostStartHook failed: {e}"), Some(name));
                if r.stop.is_none() {
                    stop::begin(r, spec, super::event::Cause::PostStartFailed, grace, now, out);
                }
            }
        },
    }
}

fn probed(s: &mut State, name: &str, id: &str, kind: ProbeKind, outcome: Outcome, now: Now, out: &mut Out) {
    let pod = Arc::clone(&s.pod);
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(30);
    let (Some(spec), Some(c)) = (pod.container(name), s.containers.get_mut(name)) else { return };
    if let Some(r) = c.running_mut().filter(|r| r.id == id) {
        probes::absorb(r, spec, kind, outcome, grace, now, out);
    }
}

fn stopped(s: &mut State, name: &str, id: &str, result: Result<ContainerSeen, RuntimeError>, now: Now) {
    let Some(c) = s.containers.get_mut(name) else { return };
    let Some(r) = c.running_mut().filter(|r| r.id == id) else { return };
    match result {
        Ok(seen) if seen.state == RunState::Exited => observe::exit(c, &seen, now),
        Err(RuntimeError::NotFound(_)) => observe::lost(c, now),
        Ok(_) | Err(_) => {
            if let Some(call) = r.stop.as_mut() {
                call.call = Progress::Failed { retry_ms: now.boot_ms + 1_000 };
            }
        }
    }
}

impl Stop {
    pub fn new(why: Why, grace_s: i64, now: Now) -> Self {
        Self {
            why,
            grace_s,
            since_ms: now.boot_ms,
            removal: Progress::Todo,
            tear_down: Progress::Todo,
            deletion: Progress::Todo,
            forgotten: false,
        }
    }
}
