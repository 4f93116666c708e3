//! The machine's table: events in, the exact effects out.

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::api::Pod;
use crate::runtime::{ContainerSeen, RunState, RuntimeError, SandboxSeen};

/// A machine with its clock, and short words for what happens to it.
struct Bench {
    s: State,
    ms: u64,
}

impl Bench {
    fn new(spec: Value) -> Self {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}))
                .unwrap();
        let facts = Facts { runtime: "containerd".into(), host_ips: vec!["192.168.0.5".into()] };
        Self { s: State::new(Arc::new(pod), Arc::new(facts)), ms: 1_000_000 }
    }
    fn now(&self) -> Now {
        Now { wall: Timestamp::from_millis(1_700_000_000_000 + i64::try_from(self.ms).unwrap()), boot_ms: self.ms }
    }
    /// Everything asked for, as short text; statuses and events for people are left out.
    fn send(&mut self, event: Event) -> Vec<String> {
        self.raw(event)
            .into_iter()
            .filter(|e| !matches!(e, Effect::Status(_) | Effect::Tell { .. }))
            .map(|e| short(&e))
            .collect()
    }
    fn raw(&mut self, event: Event) -> Vec<Effect> {
        let now = self.now();
        let effects = step(&mut self.s, now, event);
        self.s.validate().unwrap();
        effects
    }
    /// What people are told by an event, as "Reason: message".
    fn told(&mut self, event: Event) -> Vec<String> {
        let effects = self.raw(event).into_iter();
        effects
            .filter_map(|e| {
                if let Effect::Tell { reason, message, .. } = e { Some(format!("{reason}: {message}")) } else { None }
            })
            .collect()
    }
    fn later(&mut self, ms: u64) -> Vec<String> {
        self.ms += ms;
        self.send(Event::Tick)
    }
    fn look(&mut self, sandboxes: Vec<SandboxSeen>, containers: Vec<ContainerSeen>) -> Vec<String> {
        self.ms += 1;
        let taken_ms = self.ms;
        self.send(Event::Observed(PodSeen { taken_ms, sandboxes, containers }))
    }
    fn image(&mut self, name: &str) -> Vec<String> {
        self.send(Event::Image { name: name.into(), outcome: ImageOutcome::Present })
    }
    fn started(&mut self, name: &str, attempt: u32) -> Vec<String> {
        let at = self.now().wall;
        self.send(Event::Started {
            name: name.into(),
            attempt,
            id: format!("{name}{attempt}"),
            image_id: "sha".into(),
            at,
        })
    }
    fn probed(&mut self, kind: ProbeKind, id: &str, ok: bool) -> Vec<String> {
        let outcome = if ok { Outcome::Success } else { Outcome::Failure("no".into()) };
        self.send(Event::Probed { name: "c".into(), id: id.into(), kind, outcome })
    }
    fn exit(&mut self, name: &str, attempt: u32, code: i32, reason: &str) -> Vec<String> {
        let seen = self.seen(name, attempt, RunState::Exited, code, reason);
        self.look(vec![sandbox("s0", 0, true)], vec![seen])
    }
    fn seen(&self, name: &str, attempt: u32, state: RunState, exit_code: i32, reason: &str) -> ContainerSeen {
        ContainerSeen {
            id: format!("{name}{attempt}"),
            name: name.into(),
            attempt,
            state,
            exit_code,
            reason: reason.into(),
            finished_at: (state == RunState::Exited).then(|| self.now().wall),
            started_at: Some(self.now().wall),
            ..ContainerSeen::default()
        }
    }
    /// Up to the first image look, in sandbox s0.
    fn ready_ground(&mut self) -> Vec<String> {
        assert_eq!(self.send(Event::Tick), ["look"]);
        assert_eq!(self.look(vec![], vec![]), ["prepare"]);
        assert_eq!(self.send(Event::Prepared(Ok(()))), ["sandbox 0"]);
        self.send(Event::SandboxUp { attempt: 0, result: Ok(sandbox("s0", 0, true)) })
    }
    /// Container `c` running.
    fn running(spec: Value) -> Self {
        let mut b = Self::new(spec);
        assert_eq!(b.ready_ground(), ["image c"]);
        assert_eq!(b.image("c"), ["start c 0"]);
        b.started("c", 0);
        b
    }
    /// The runtime stopped the first run of a container.
    fn stopped(&mut self, name: &str, code: i32) -> Vec<String> {
        let seen = self.seen(name, 0, RunState::Exited, code, "Error");
        self.send(Event::Stopped { name: name.into(), id: format!("{name}0"), result: Ok(seen) })
    }
    fn delete(&mut self, grace_s: i64) -> Vec<String> {
        let mut pod = (*self.s.pod).clone();
        pod.metadata.deletion_timestamp = Some(self.now().wall);
        pod.metadata.deletion_grace_period_seconds = Some(grace_s);
        self.send(Event::Desired(Arc::new(pod)))
    }
    fn status(&self) -> Value {
        json!(self.s.reported)
    }
    fn phase(&self) -> &str {
        &self.s.reported.phase
    }
    fn condition(&self, kind: &str) -> &str {
        &self.s.reported.condition(kind).unwrap().status
    }
    fn waiting(&self) -> String {
        self.status()["containerStatuses"][0]["state"]["waiting"]["reason"].as_str().unwrap_or_default().to_owned()
    }
}

fn sandbox(id: &str, attempt: u32, ready: bool) -> SandboxSeen {
    SandboxSeen { id: id.into(), attempt, ready, ips: vec!["10.0.0.9".into()], ..SandboxSeen::default() }
}

fn short(e: &Effect) -> String {
    match e {
        Effect::Look => "look".into(),
        Effect::Prepare => "prepare".into(),
        Effect::RunSandbox { attempt } => format!("sandbox {attempt}"),
        Effect::StopSandbox { id } => format!("stop-sandbox {id}"),
        Effect::DropSandbox { id } => format!("drop-sandbox {id}"),
        Effect::DropContainer { id } => format!("drop {id}"),
        Effect::Image { name } => format!("image {name}"),
        Effect::Start { name, attempt, .. } => format!("start {name} {attempt}"),
        Effect::RunHook { id, hook, .. } => format!("hook {hook:?} {id}"),
        Effect::Probe { id, kind, .. } => format!("probe {kind:?} {id}"),
        Effect::Stop { id, grace_s, .. } => format!("stop {id} {grace_s}"),
        Effect::Remove { sandboxes } => format!("remove {}", sandboxes.join(",")),
        Effect::TearDown => "tear-down".into(),
        Effect::Delete => "delete".into(),
        Effect::Forget => "forget".into(),
        Effect::Status(_) | Effect::Tell { .. } => String::new(),
    }
}

fn one() -> Value {
    json!({"containers": [{"name": "c", "image": "i:1"}]})
}

fn with(extra: Value) -> Value {
    let mut spec = one();
    spec["containers"][0].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec
}

#[test]
fn a_pod_comes_up_and_goes() {
    let mut b = Bench::new(one());
    assert_eq!(b.ready_ground(), ["image c"]);
    assert_eq!(b.later(1_000), Vec::<String>::new());
    assert_eq!(
        (b.phase(), b.waiting().as_str(), b.condition("PodReadyToStartContainers")),
        ("Pending", "ContainerCreating", "True")
    );
    assert_eq!(b.image("c"), ["start c 0"]);
    assert!(b.started("c", 0).is_empty());
    assert_eq!((b.phase(), b.condition("Ready"), b.condition("ContainersReady")), ("Running", "True", "True"));
    let status = b.status();
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.0.0.9"), &json!("192.168.0.5")));
    assert_eq!(status["containerStatuses"][0]["containerID"], "containerd://c0");
    assert_eq!(status.get("qosClass"), None, "the API server has set it");

    assert_eq!(b.delete(30), ["stop c0 30"]);
    let seen = b.seen("c", 0, RunState::Exited, 143, "Error");
    assert_eq!(b.send(Event::Stopped { name: "c".into(), id: "c0".into(), result: Ok(seen) }), ["stop-sandbox s0"]);
    assert_eq!((b.phase(), b.condition("Ready")), ("Failed", "False"));
    assert_eq!(b.send(Event::SandboxStopped { id: "s0".into(), result: Ok(()) }), ["remove s0"]);
    assert_eq!(b.send(Event::Removed(Ok(()))), ["tear-down"]);
    assert_eq!(b.send(Event::TornDown(Ok(()))), ["delete"]);
    assert_eq!(b.send(Event::Deleted(Err("away".into()))), Vec::<String>::new());
    assert_eq!(b.later(1_000), ["delete"]);
    assert_eq!(b.send(Event::Deleted(Ok(()))), ["forget"]);
    assert_eq!(b.later(60_000), Vec::<String>::new());
}

#[test]
fn crashes_restart_at_once_then_back_off() {
    let mut b = Bench::running(one());
    assert_eq!(b.exit("c", 0, 1, "Error"), ["image c"]);
    assert_eq!(b.image("c"), ["start c 1"]);
    b.started("c", 1);
    assert_eq!(b.status()["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(b.status()["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(b.exit("c", 1, 2, "Error"), Vec::<String>::new());
    assert_eq!((b.waiting().as_str(), b.phase(), b.condition("Ready")), ("CrashLoopBackOff", "Running", "False"));
    assert_eq!(b.later(9_000), Vec::<String>::new());
    assert_eq!(b.later(1_001), ["image c"]);
    assert_eq!(b.image("c"), ["start c 2", "drop c0"]);
    b.started("c", 2);
    b.exit("c", 2, 2, "Error");
    assert_eq!(b.later(19_000), Vec::<String>::new());
    assert_eq!(b.later(1_001), ["image c"]);
}

#[test]
fn policies_decide_what_restarts_and_how_it_ends() {
    let check = |policy: &str, code: i32, restarts: bool, phase: &str| {
        let mut spec = one();
        spec["restartPolicy"] = json!(policy);
        let mut b = Bench::running(spec);
        let effects = b.exit("c", 0, code, "Error");
        assert_eq!(effects, [if restarts { "image c" } else { "stop-sandbox s0" }], "{policy} {code}");
        assert_eq!(b.phase(), phase, "{policy} {code}");
        if !restarts {
            assert_eq!(b.send(Event::SandboxStopped { id: "s0".into(), result: Ok(()) }), ["tear-down"]);
            assert_eq!(b.send(Event::TornDown(Ok(()))), Vec::<String>::new());
            assert_eq!(b.delete(30), ["remove s0"]);
            assert_eq!(b.send(Event::Removed(Ok(()))), ["delete"]);
        }
    };
    check("Always", 0, true, "Running");
    check("OnFailure", 0, false, "Succeeded");
    check("OnFailure", 3, true, "Running");
    check("Never", 0, false, "Succeeded");
    check("Never", 3, false, "Failed");
}

#[test]
fn an_exit_is_named_by_what_killed_it() {
    let check = |code: i32, reason: &str, expect: &str| {
        let mut spec = one();
        spec["restartPolicy"] = json!("Never");
        let mut b = Bench::running(spec);
        b.exit("c", 0, code, reason);
        assert_eq!(b.status()["containerStatuses"][0]["state"]["terminated"]["reason"], expect, "{code} {reason}");
    };
    check(0, "Completed", "Completed");
    check(137, "OOMKilled", "OOMKilled");
    check(1, "OOMKilled", "Error");
    check(0, "OOMKilled", "Completed");
    check(2, "", "Error");
    check(128, "StartError", "StartError");
}

#[test]
fn a_bad_image_reads_as_error_then_as_back_off() {
    let mut b = Bench::new(one());
    b.ready_ground();
    let failed = || ImageOutcome::Failed { reason: "ErrImagePull", message: "nope".into() };
    let told = b.told(Event::Image { name: "c".into(), outcome: failed() });
    assert_eq!(told, ["Failed: Failed to pull image \"i:1\": nope", "Failed: Error: ErrImagePull"]);
    assert_eq!(b.waiting(), "ErrImagePull");
    b.ms += 2_000;
    let told = b.told(Event::Tick);
    assert_eq!(told, ["BackOff: Back-off pulling image \"i:1\"", "Failed: Error: ImagePullBackOff"]);
    assert_eq!((b.waiting().as_str(), b.phase()), ("ImagePullBackOff", "Pending"));
    assert_eq!(b.later(8_000), ["image c"]);
    b.send(Event::Image { name: "c".into(), outcome: failed() });
    assert_eq!(b.later(19_999), Vec::<String>::new());
    assert_eq!(b.later(1), ["image c"]);
}

#[test]
fn readiness_follows_its_probe_and_tells() {
    let probe = json!({"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2}});
    let mut b = Bench::new(with(probe));
    b.ready_ground();
    b.image("c");
    assert_eq!(b.started("c", 0), ["probe Readiness c0"]);
    assert_eq!((b.phase(), b.condition("Ready")), ("Running", "False"));
    // Eager tries fail quietly and come soon.
    assert_eq!(b.probed(ProbeKind::Readiness, "c0", false), Vec::<String>::new());
    assert_eq!(b.later(50), ["probe Readiness c0"]);
    b.probed(ProbeKind::Readiness, "c0", true);
    assert_eq!(b.condition("Ready"), "True");
    assert_eq!(b.later(5_000), ["probe Readiness c0"]);
    let failed = |id: &str| Event::Probed {
        name: "c".into(),
        id: id.into(),
        kind: ProbeKind::Readiness,
        outcome: Outcome::Failure("x".into()),
    };
    assert_eq!(b.told(failed("c0")), ["Unhealthy: Readiness probe failed: x"]);
    assert_eq!(b.condition("Ready"), "True");
    b.later(5_000);
    b.send(failed("c0"));
    assert_eq!(b.condition("Ready"), "False");
    assert_eq!(b.status()["conditions"][2]["message"], "containers with unready status: [c]");
    b.later(5_000);
    b.probed(ProbeKind::Readiness, "another", true);
    assert_eq!(b.condition("Ready"), "False");
    b.probed(ProbeKind::Readiness, "c0", true);
    assert_eq!(b.condition("Ready"), "True");
}

#[test]
fn liveness_waits_for_startup_and_then_restarts() {
    let probes = json!({
        "startupProbe": {"exec": {"command": ["t"]}, "periodSeconds": 1, "failureThreshold": 30},
        "livenessProbe": {"exec": {"command": ["t"]}, "periodSeconds": 1, "failureThreshold": 2, "terminationGracePeriodSeconds": 3}
    });
    let mut b = Bench::new(with(probes));
    b.ready_ground();
    b.image("c");
    assert_eq!(b.started("c", 0), ["probe Startup c0"]);
    assert_eq!(b.status()["containerStatuses"][0]["started"], false);
    b.probed(ProbeKind::Startup, "c0", false);
    assert_eq!(b.later(1_000), ["probe Startup c0"]);
    assert_eq!(b.probed(ProbeKind::Startup, "c0", true), ["probe Liveness c0"]);
    assert_eq!((b.status()["containerStatuses"][0]["started"].clone(), b.condition("Ready")), (json!(true), "True"));
    b.probed(ProbeKind::Liveness, "c0", false);
    assert_eq!(b.later(1_000), ["probe Liveness c0"]);
    assert_eq!(b.probed(ProbeKind::Liveness, "c0", false), ["stop c0 3"]);
    let seen = b.seen("c", 0, RunState::Exited, 143, "Error");
    assert_eq!(b.send(Event::Stopped { name: "c".into(), id: "c0".into(), result: Ok(seen) }), ["image c"]);
}

#[test]
fn hooks_run_before_the_end_and_after_the_start() {
    let hooks =
        json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}, "postStart": {"exec": {"command": ["y"]}}}});
    let mut b = Bench::new(with(hooks));
    b.ready_ground();
    b.image("c");
    assert_eq!(b.started("c", 0), ["hook PostStart c0"]);
    assert_eq!(b.condition("Ready"), "False");
    b.send(Event::HookDone { name: "c".into(), id: "c0".into(), hook: Hook::PostStart, result: Ok(()) });
    assert_eq!(b.condition("Ready"), "True");
    assert_eq!(b.delete(10), ["hook PreStop c0"]);
    b.ms += 4_000;
    let done = Event::HookDone { name: "c".into(), id: "c0".into(), hook: Hook::PreStop, result: Ok(()) };
    assert_eq!(b.send(done), ["stop c0 6"]);
    // A shorter grace period reaches the call in flight.
    assert_eq!(b.delete(1), ["stop c0 1"]);
}

#[test]
fn a_hook_cannot_outlive_the_grace_period() {
    let mut b = Bench::running(with(json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}})));
    assert_eq!(b.delete(5), ["hook PreStop c0"]);
    assert_eq!(b.later(4_999), Vec::<String>::new());
    assert_eq!(b.later(1), ["stop c0 2"]);
}

#[test]
fn init_containers_go_first_and_a_sidecar_stays_until_last() {
    let spec = json!({
        "initContainers": [{"name": "a", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}],
        "containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"
    });
    let mut b = Bench::new(spec);
    assert_eq!(b.ready_ground(), ["image a"]);
    assert_eq!(b.later(1_000), Vec::<String>::new());
    assert_eq!((b.condition("Initialized"), b.waiting().as_str()), ("False", "PodInitializing"));
    b.image("a");
    b.started("a", 0);
    let a = b.seen("a", 0, RunState::Exited, 0, "Completed");
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![a.clone()]), ["image side"]);
    b.image("side");
    assert_eq!(b.started("side", 0), ["image c"]);
    assert_eq!(b.condition("Initialized"), "True");
    b.image("c");
    b.started("c", 0);
    assert_eq!((b.phase(), b.condition("Ready")), ("Running", "True"));
    let (side, c) = (b.seen("side", 0, RunState::Running, 0, ""), b.seen("c", 0, RunState::Exited, 0, "Completed"));
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![a, side, c]), ["stop side0 30"]);
    assert_eq!(b.phase(), "Running");
    assert_eq!(b.stopped("side", 143), ["stop-sandbox s0"]);
    assert_eq!(b.phase(), "Succeeded");
}

#[test]
fn a_pod_fails_only_when_its_sidecars_have_stopped() {
    let spec = json!({
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}, {"name": "a", "image": "i"}],
        "containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"
    });
    let up_to_a = |code: i32| {
        let mut b = Bench::new(spec.clone());
        assert_eq!(b.ready_ground(), ["image side"]);
        b.image("side");
        assert_eq!(b.started("side", 0), ["image a"]);
        b.image("a");
        b.started("a", 0);
        let (side, a) = (b.seen("side", 0, RunState::Running, 0, ""), b.seen("a", 0, RunState::Exited, code, ""));
        let effects = b.look(vec![sandbox("s0", 0, true)], vec![side, a]);
        (b, effects)
    };
    let (mut b, effects) = up_to_a(1);
    assert_eq!((effects, b.phase()), (vec!["stop side0 30".to_owned()], "Pending"));
    assert_eq!(b.stopped("side", 143), ["stop-sandbox s0"]);
    assert_eq!(b.phase(), "Failed");

    let (mut b, effects) = up_to_a(0);
    assert_eq!(effects, ["image c"]);
    b.image("c");
    b.started("c", 0);
    assert_eq!(b.send(Event::Evict { reason: "Evicted", message: "full".into() }), ["stop c0 30"]);
    assert_eq!(b.stopped("c", 143), ["stop side0 30"]);
    assert_eq!(b.phase(), "Running");
    b.stopped("side", 143);
    assert_eq!((b.phase(), &b.status()["reason"]), ("Failed", &json!("Evicted")));
}

#[test]
fn ephemeral_containers_wait_for_nobody() {
    let spec = json!({"initContainers": [{"name": "a", "image": "i"}], "containers": [{"name": "c", "image": "i"}]});
    let mut b = Bench::new(spec);
    assert_eq!(b.ready_ground(), ["image a"]);
    b.image("a");
    b.started("a", 0);
    let mut pod = (*b.s.pod).clone();
    pod.spec.ephemeral_containers = serde_json::from_value(json!([{"name": "d", "image": "i"}])).unwrap();
    assert_eq!(b.send(Event::Desired(Arc::new(pod))), ["image d"]);
    assert_eq!(b.image("d"), ["start d 0"]);
    assert_eq!(b.started("d", 0), Vec::<String>::new());
    assert_eq!(b.phase(), "Pending");
}

#[test]
fn a_failed_init_container_fails_the_pod_or_tries_again() {
    let spec = |policy: &str| json!({"restartPolicy": policy, "initContainers": [{"name": "a", "image": "i"}], "containers": [{"name": "c", "image": "i"}]});
    let run = |policy: &str| {
        let mut b = Bench::new(spec(policy));
        b.ready_ground();
        b.image("a");
        b.started("a", 0);
        let effects = b.exit("a", 0, 1, "Error");
        (effects, b.phase().to_owned())
    };
    assert_eq!(run("Never"), (vec!["stop-sandbox s0".to_owned()], "Failed".to_owned()));
    assert_eq!(run("Always"), (vec!["image a".to_owned()], "Pending".to_owned()));
}

#[test]
fn a_restarted_agent_adopts_what_runs() {
    let before = json!({"phase": "Running", "startTime": "2023-11-14T22:00:00Z", "containerStatuses": [{"name": "c", "ready": true, "started": true, "restartCount": 2, "containerID": "containerd://c2"}]});
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": with(json!({"readinessProbe": {"exec": {"command": ["x"]}}})), "status": before});
    let mut b = Bench::new(one());
    b.s = State::new(Arc::new(serde_json::from_value(pod).unwrap()), b.s.facts.clone());
    assert_eq!(b.send(Event::Tick), ["look"]);
    let (dead, live) = (b.seen("c", 1, RunState::Exited, 7, "Error"), b.seen("c", 2, RunState::Running, 0, ""));
    // The volumes are checked again; nothing is started or stopped.
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![dead, live]), ["prepare", "probe Readiness c2"]);
    let status = &b.status()["containerStatuses"][0];
    assert_eq!(
        (&status["ready"], &status["restartCount"], &status["lastState"]["terminated"]["exitCode"]),
        (&json!(true), &json!(2), &json!(7))
    );
    assert_eq!(b.condition("Ready"), "True");
    assert_eq!(b.exit("c", 2, 1, "Error"), ["image c"]);
    assert_eq!(b.image("c"), ["start c 3", "drop c1"]);
}

#[test]
fn a_restarted_agent_says_nothing_before_it_has_looked() {
    let mut b = Bench::running(one());
    let (told, mut live) = (b.s.reported.clone(), b.seen("c", 0, RunState::Running, 0, ""));
    live.image_id = "sha".into();
    let mut pod = (*b.s.pod).clone();
    pod.status = told.clone();
    b.s = State::new(Arc::new(pod.clone()), b.s.facts.clone());
    b.ms += 60_000;
    assert_eq!(b.raw(Event::Tick), [Effect::Look]);
    // The API may know less than the checkpoint does.
    pod.status = crate::api::PodStatus { start_time: told.start_time, ..Default::default() };
    assert_eq!(b.raw(Event::Desired(Arc::new(pod))), []);
    assert_eq!(b.raw(Event::LookFailed), []);
    b.ms += 1_000;
    assert_eq!(b.raw(Event::Tick), [Effect::Look]);
    assert_eq!(b.s.reported, told);
    // What was told last may have got lost on its way: it is told once more, as it was.
    let seen = PodSeen { taken_ms: b.ms, sandboxes: vec![sandbox("s0", 0, true)], containers: vec![live] };
    assert_eq!(b.raw(Event::Observed(seen)), [Effect::Prepare, Effect::Status(Box::new(told))]);
}

#[test]
fn a_report_that_was_overruled_is_told_again() {
    let mut b = Bench::running(one());
    let told = b.s.reported.clone();
    let api = |b: &mut Bench, status: &str, after_ms: i64| {
        let mut pod = (*b.s.pod).clone();
        pod.status = told.clone();
        for condition in pod.status.conditions.iter_mut().filter(|condition| condition.kind == "Ready") {
            let at = condition.last_transition_time.map_or(0, |at| at.micros() / 1_000);
            condition.status = status.to_owned();
            condition.last_transition_time = Some(Timestamp::from_millis(at + after_ms));
        }
        b.raw(Event::Desired(Arc::new(pod)))
    };
    // The machine was silent, so its pods were marked; now the agent sees that.
    assert_eq!(api(&mut b, "False", 40_000), [Effect::Status(Box::new(told.clone()))]);
    assert_eq!(api(&mut b, "True", 0), [], "the same");
    assert_eq!(api(&mut b, "False", -40_000), [], "an older report of its own comes back");
}

#[test]
fn a_pod_that_starts_at_once_is_told_of_once() {
    let phases = |effects: Vec<Effect>| {
        let told = effects.into_iter().filter_map(|effect| match effect {
            Effect::Status(status) => Some(status.phase),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let mut b = Bench::new(one());
    b.ready_ground();
    b.ms += 900;
    b.image("c");
    assert_eq!(b.s.reported, crate::api::PodStatus::default(), "nothing is told while it begins");
    let at = b.now().wall;
    let started = |at| Event::Started { name: "c".into(), attempt: 0, id: "c0".into(), image_id: "sha".into(), at };
    assert_eq!(phases(b.raw(started(at))), ["Running"]);

    // One that has ended when it is first told of keeps its address.
    let mut b = Bench::new(json!({"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}));
    b.ready_ground();
    b.image("c");
    b.exit("c", 0, 0, "Completed");
    b.started("c", 0);
    b.exit("c", 0, 0, "Completed");
    assert_eq!((b.phase(), b.status()["podIP"].as_str()), ("Succeeded", Some("10.0.0.9")));

    // One that takes longer is told of while it begins, and again when it runs.
    let mut b = Bench::new(one());
    b.ready_ground();
    let since_ms = b.s.since_ms.unwrap();
    assert_eq!(b.s.wake_ms, Some(since_ms + 1_000));
    b.ms = since_ms + 999;
    assert_eq!(phases(b.raw(Event::Tick)), Vec::<String>::new());
    b.ms = since_ms + 1_000;
    assert_eq!(phases(b.raw(Event::Tick)), ["Pending"]);
    assert_eq!(b.waiting(), "ContainerCreating");
    b.image("c");
    let at = b.now().wall;
    assert_eq!(phases(b.raw(started(at))), ["Running"]);

    // What is in its way is told at once, and so is that it goes.
    let mut b = Bench::new(one());
    b.ready_ground();
    let outcome = ImageOutcome::Failed { reason: "ErrImagePull", message: "no such image".into() };
    assert_eq!(phases(b.raw(Event::Image { name: "c".into(), outcome })), ["Pending"]);
    assert_eq!(b.waiting(), "ErrImagePull");
    let mut b = Bench::new(one());
    b.ready_ground();
    b.delete(30);
    assert_ne!(b.s.reported.start_time, None);
}

#[test]
fn what_somebody_else_wrote_into_a_status_is_put_right() {
    let mut b = Bench::running(one());
    let told = b.s.reported.clone();
    let api = |b: &mut Bench, change: &dyn Fn(&mut crate::api::PodStatus)| {
        // As the API sends it: written and read once, so in seconds.
        let mut pod: Pod = serde_json::from_value(json!(*b.s.pod)).unwrap();
        pod.status = serde_json::from_value(json!(told)).unwrap();
        change(&mut pod.status);
        b.raw(Event::Desired(Arc::new(pod)))
    };
    let settled = |b: &mut Bench| {
        b.ms += 60_000;
        b.raw(Event::Tick)
    };
    assert_eq!(api(&mut b, &|_| {}), []);
    assert_eq!((b.s.retell_ms, settled(&mut b)), (None, vec![]), "a settled pod writes nothing");
    // Others' conditions are others', in any order.
    let foreign = |status: &mut crate::api::PodStatus| {
        status.conditions.reverse();
        status.conditions.push(serde_json::from_value(json!({"type": "gate", "status": "False"})).unwrap());
    };
    assert_eq!((api(&mut b, &foreign), settled(&mut b)), (vec![], vec![]));
    for (what, change) in [
        ("podIP", (&|status: &mut crate::api::PodStatus| status.pod_ip = Some("6.6.6.6".into())) as &dyn Fn(&mut _)),
        ("phase", &|status: &mut crate::api::PodStatus| status.phase = "Pending".into()),
        ("container", &|status: &mut crate::api::PodStatus| status.container_statuses[0].restart_count = 9),
    ] {
        assert_eq!(api(&mut b, change), [], "{what}: an older report of its own may still be on its way");
        b.ms += 4_999;
        assert_eq!(b.raw(Event::Tick), [], "{what}");
        b.ms += 1;
        assert_eq!(b.raw(Event::Tick), [Effect::Status(Box::new(told.clone()))], "{what}");
        assert_eq!(settled(&mut b), [], "{what}: told once");
    }
    // The newer report arrives in time.
    api(&mut b, &|status| status.phase = "Pending".into());
    assert_eq!((api(&mut b, &|_| {}), settled(&mut b)), (vec![], vec![]));
}

#[test]
fn a_final_phase_that_somebody_else_gave_ends_the_pod() {
    let mut b = Bench::running(with(json!({"lifecycle": {}})));
    let mut pod = (*b.s.pod).clone();
    pod.status = crate::api::PodStatus { phase: "Failed".into(), reason: Some("Lost".into()), ..b.s.reported.clone() };
    let pod = Arc::new(pod);
    assert_eq!(b.send(Event::Desired(pod.clone())), ["stop c0 30"]);
    assert_eq!((b.phase(), b.condition("Ready"), &b.status()["reason"]), ("Failed", "False", &json!("Lost")));
    assert_eq!(b.stopped("c", 0), ["stop-sandbox s0"]);
    assert_eq!(b.send(Event::SandboxStopped { id: "s0".into(), result: Ok(()) }), ["tear-down"]);
    b.send(Event::TornDown(Ok(())));
    assert_eq!(b.phase(), "Failed", "whatever the containers' ends say");
    assert!(b.s.reported.container_statuses[0].state.terminated.is_some());
    assert_eq!(b.send(Event::Desired(pod)), Vec::<String>::new());
    assert_eq!(b.delete(30), ["remove s0"]);
}

#[test]
fn a_pod_that_nobody_reported_needs_no_look_to_be_reported() {
    let mut b = Bench::new(one());
    assert_eq!(b.raw(Event::Tick), [Effect::Look]);
    b.ms += 1_000;
    let effects = b.raw(Event::Tick);
    assert_eq!(effects, [Effect::Status(Box::new(b.s.reported.clone()))]);
    assert_eq!((b.phase(), b.waiting().as_str()), ("Pending", "ContainerCreating"));
}

#[test]
fn doubt_is_looked_into_before_anything_else() {
    let mut b = Bench::new(one());
    b.ready_ground();
    b.image("c");
    let unknown = Event::StartFailed { name: "c".into(), attempt: 0, failure: StartFailure::Unknown("timeout".into()) };
    assert_eq!(b.send(unknown), ["look"]);
    assert_eq!(b.send(Event::LookFailed), Vec::<String>::new());
    assert_eq!(b.later(1_000), ["look"]);
    // A look from before the doubt settles nothing.
    let stale = PodSeen { taken_ms: 1, ..PodSeen::default() };
    assert_eq!(b.send(Event::Observed(stale)), Vec::<String>::new());
    let live = b.seen("c", 0, RunState::Running, 0, "");
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![live]), Vec::<String>::new());
    assert_eq!((b.phase(), b.condition("Ready")), ("Running", "True"));
}

/// The agent died within a call to create: the runtime finished it, or still does, and the name is taken.
#[test]
fn a_leftover_under_the_name_of_the_next_attempt_is_removed() {
    let mut b = Bench::new(one());
    b.ready_ground();
    b.image("c");
    let taken = Event::StartFailed {
        name: "c".into(),
        attempt: 0,
        failure: StartFailure::Create("the name is reserved".into()),
    };
    assert_eq!(b.send(taken.clone()), ["look"]);
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![]), Vec::<String>::new(), "not there yet");
    assert_eq!(b.later(2_000), ["image c"]);
    assert_eq!(b.image("c"), ["start c 0"]);
    assert_eq!(b.send(taken.clone()), ["look"]);
    let left = b.seen("c", 0, RunState::Created, 0, "");
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![left]), ["drop c0"]);
    assert_eq!(b.waiting(), "CreateContainerError");
    assert_eq!(b.later(2_000), ["image c"]);
    assert_eq!(b.image("c"), ["start c 0"]);
    assert_eq!(b.send(taken), ["look"]);
    let runs = b.seen("c", 0, RunState::Running, 0, "");
    assert_eq!(b.look(vec![sandbox("s0", 0, true)], vec![runs]), Vec::<String>::new(), "it is taken over");
    assert_eq!((b.phase(), b.condition("Ready")), ("Running", "True"));
}

#[test]
fn a_dead_sandbox_is_replaced() {
    let mut b = Bench::running(one());
    let dead = b.seen("c", 0, RunState::Exited, 137, "Error");
    assert_eq!(b.look(vec![sandbox("s0", 0, false)], vec![dead]), ["stop-sandbox s0"]);
    assert_eq!(b.send(Event::SandboxStopped { id: "s0".into(), result: Ok(()) }), ["drop-sandbox s0", "sandbox 1"]);
    assert_eq!(b.condition("PodReadyToStartContainers"), "False");
    assert_eq!(b.send(Event::SandboxUp { attempt: 1, result: Ok(sandbox("s1", 1, true)) }), ["image c"]);
    assert_eq!(b.image("c"), ["start c 1"]);
}

#[test]
fn failures_on_the_way_up_are_told_and_tried_again() {
    let mut b = Bench::new(one());
    b.send(Event::Tick);
    b.look(vec![], vec![]);
    assert_eq!(b.told(Event::Prepared(Err("no cm".into()))), ["FailedMount: no cm"]);
    assert_eq!(b.later(500), ["prepare"]);
    b.send(Event::Prepared(Ok(())));
    let failed = Event::SandboxUp { attempt: 0, result: Err(RuntimeError::Failed("no net".into())) };
    assert_eq!(b.told(failed), ["FailedCreatePodSandBox: Failed to create pod sandbox: no net"]);
    assert_eq!(b.later(500), ["sandbox 1"]);
    b.send(Event::SandboxUp { attempt: 1, result: Ok(sandbox("s1", 1, true)) });
    b.image("c");
    let missing = StartFailure::Config("secret \"s\" not found".into());
    b.send(Event::StartFailed { name: "c".into(), attempt: 0, failure: missing });
    assert_eq!((b.waiting().as_str(), b.phase()), ("CreateContainerConfigError", "Pending"));
    assert_eq!(b.later(2_000), ["image c"]);
    assert_eq!(b.image("c"), ["start c 0"]);
    let bad = StartFailure::Run { id: "c0".into(), message: "no such file".into() };
    assert_eq!(b.send(Event::StartFailed { name: "c".into(), attempt: 0, failure: bad }), ["image c"]);
    assert_eq!(b.image("c"), ["start c 1"]);
}

#[test]
fn runs_that_never_began_are_dropped_too() {
    let mut b = Bench::new(one());
    b.ready_ground();
    let fails = |b: &mut Bench, attempt: u32| {
        let failure = StartFailure::Run { id: format!("c{attempt}"), message: "no such file".into() };
        b.send(Event::StartFailed { name: "c".into(), attempt, failure })
    };
    assert_eq!(b.image("c"), ["start c 0"]);
    assert_eq!(fails(&mut b, 0), ["image c"]);
    assert_eq!(b.image("c"), ["start c 1"]);
    assert_eq!(fails(&mut b, 1), Vec::<String>::new());
    assert_eq!(b.later(10_001), ["image c"]);
    assert_eq!(b.image("c"), ["start c 2", "drop c0"]);
    fails(&mut b, 2);
    assert_eq!(b.later(20_001), ["image c"]);
    assert_eq!(b.image("c"), ["start c 3", "drop c1"]);
}

#[test]
fn a_deadline_and_an_eviction_fail_the_pod() {
    let mut spec = one();
    spec["activeDeadlineSeconds"] = json!(5);
    spec["terminationGracePeriodSeconds"] = json!(1);
    let mut b = Bench::running(spec);
    assert_eq!(b.later(4_000), Vec::<String>::new());
    assert_eq!(b.later(1_001), ["stop c0 1"]);
    let seen = b.seen("c", 0, RunState::Exited, 0, "Completed");
    b.send(Event::Stopped { name: "c".into(), id: "c0".into(), result: Ok(seen) });
    assert_eq!((b.phase(), &b.status()["reason"]), ("Failed", &json!("DeadlineExceeded")));
}

#[test]
fn what_the_store_lost_is_stopped_without_a_word_to_it() {
    let mut b = Bench::running(one());
    assert_eq!(b.send(Event::Vanished), ["stop c0 30"]);
    let seen = b.seen("c", 0, RunState::Exited, 0, "Completed");
    b.send(Event::Stopped { name: "c".into(), id: "c0".into(), result: Ok(seen) });
    b.send(Event::SandboxStopped { id: "s0".into(), result: Ok(()) });
    assert_eq!(b.send(Event::Removed(Ok(()))), ["tear-down"]);
    assert_eq!(b.send(Event::TornDown(Ok(()))), ["forget"]);
    assert_eq!(b.later(5_000), Vec::<String>::new());
}

#[test]
fn an_end_that_the_api_never_learned_of_is_told() {
    let pod =
        json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": one(), "status": {"phase": "Failed"}});
    let mut b = Bench::new(one());
    let api = b.s.pod.clone();
    // From the checkpoint.
    b.s = State::new(Arc::new(serde_json::from_value(pod).unwrap()), b.s.facts.clone());
    let told = b.s.reported.clone();
    assert_eq!(b.raw(Event::Desired(api)), [Effect::Look, Effect::Status(Box::new(told.clone()))]);
    assert_eq!(told.phase, "Failed");
}

#[test]
fn a_pod_that_had_ended_before_is_only_cleaned_up() {
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": one(), "status": {"phase": "Succeeded"}});
    let mut b = Bench::new(one());
    b.s = State::new(Arc::new(serde_json::from_value(pod).unwrap()), b.s.facts.clone());
    assert_eq!(b.send(Event::Tick), ["look"]);
    let effects = b.raw(Event::Observed(PodSeen { taken_ms: b.ms, ..PodSeen::default() }));
    assert_eq!(effects, [Effect::TearDown]);
    assert_eq!(b.delete(30), ["remove "]);
    assert_eq!(b.send(Event::TornDown(Ok(()))), Vec::<String>::new());
    assert_eq!(b.send(Event::Removed(Ok(()))), ["delete"]);
    assert_eq!(b.phase(), "Succeeded");
}
