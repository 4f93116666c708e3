//! Laws that hold on any run: invariants after every step, no effect without a cause, and after faults every deleted
//! pod comes to its end with nothing left in the runtime.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::api::Pod;
use crate::runtime::{ContainerSeen, RunState, RuntimeError, SandboxSeen};

/// A runtime that answers each effect, well or badly, in any order.
struct World {
    s: State,
    ms: u64,
    waiting: Vec<Effect>,
    sandboxes: BTreeMap<String, SandboxSeen>,
    containers: BTreeMap<String, ContainerSeen>,
    forgotten: bool,
}

impl World {
    fn new(policy: u8) -> Self {
        let policy = ["Always", "OnFailure", "Never"][usize::from(policy % 3)];
        let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 1});
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {
            "restartPolicy": policy,
            "initContainers": [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "image": "x", "livenessProbe": probe}, {"name": "b", "image": "x", "readinessProbe": probe}]}}))
        .unwrap();
        let s = State::new(Arc::new(pod), Arc::new(Facts::default()));
        let (sandboxes, containers) = (BTreeMap::new(), BTreeMap::new());
        let mut w = Self { s, ms: 1_000, waiting: vec![], sandboxes, containers, forgotten: false };
        w.send(Event::Tick);
        w
    }
    fn now(&self) -> Now {
        Now { wall: Timestamp::from_millis(1_000_000 + i64::try_from(self.ms).unwrap()), boot_ms: self.ms }
    }
    fn send(&mut self, event: Event) {
        let now = self.now();
        let effects = step(&mut self.s, now, event);
        self.s.validate().unwrap();
        self.waiting.extend(effects);
        // Nothing happened and no time passed: nothing more to do.
        let again = step(&mut self.s, now, Event::Tick);
        assert_eq!(again, [], "a settled pod wants nothing");
    }
    fn kill(&mut self, name: &str) {
        let now = self.now().wall;
        for c in self.containers.values_mut().filter(|c| c.id == name && c.state == RunState::Running) {
            (c.state, c.exit_code, c.finished_at) = (RunState::Exited, 1, Some(now));
        }
    }
    fn observe(&mut self) {
        self.ms += 1;
        let seen = PodSeen {
            taken_ms: self.ms,
            sandboxes: self.sandboxes.values().cloned().collect(),
            containers: self.containers.values().cloned().collect(),
        };
        self.send(Event::Observed(seen));
    }
    /// Answers one effect. `fault`: 0 works, 1 fails, 2 happens but nobody hears of it.
    fn answer(&mut self, index: usize, fault: u8) {
        if self.waiting.is_empty() {
            return;
        }
        let effect = self.waiting.remove(index % self.waiting.len());
        self.ms += 7;
        let unknown = || RuntimeError::Unknown("?".into());
        match effect {
            Effect::Look if fault == 0 => self.observe(),
            Effect::Look => self.send(Event::LookFailed),
            Effect::Prepare => self.send(Event::Prepared(if fault == 0 { Ok(()) } else { Err("x".into()) })),
            Effect::RunSandbox { attempt } => {
                let seen = SandboxSeen { id: format!("sb{attempt}"), attempt, ready: true, ..SandboxSeen::default() };
                if fault != 1 {
                    self.sandboxes.insert(seen.id.clone(), seen.clone());
                }
                let result = if fault == 0 { Ok(seen) } else { Err(unknown()) };
                self.send(Event::SandboxUp { attempt, result });
            }
            Effect::StopSandbox { id } => {
                if let Some(s) = self.sandboxes.get_mut(&id) {
                    s.ready = false;
                }
                let ids: Vec<String> = self.containers.keys().cloned().collect();
                ids.iter().for_each(|id| self.kill(id));
                self.send(Event::SandboxStopped { id, result: if fault == 0 { Ok(()) } else { Err(unknown()) } });
            }
            Effect::DropSandbox { id } => {
                self.sandboxes.remove(&id);
            }
            Effect::DropContainer { id } => {
                self.containers.remove(&id);
            }
            Effect::Image { name } => {
                let failed = ImageOutcome::Failed { reason: "ErrImagePull", message: "x".into() };
                self.send(Event::Image { name, outcome: if fault == 1 { failed } else { ImageOutcome::Present } });
            }
            Effect::Start { name, attempt, .. } => self.start(name, attempt, fault),
            Effect::Probe { name, id, kind } => {
                let outcome = if fault == 0 { Outcome::Success } else { Outcome::Failure("x".into()) };
                self.send(Event::Probed { name, id, kind, outcome });
            }
            Effect::Stop { name, id, .. } => {
                if fault != 1 {
                    self.kill(&id);
                }
                let known = self.containers.get(&id).cloned().ok_or_else(|| RuntimeError::NotFound("x".into()));
                self.send(Event::Stopped { name, id, result: if fault == 0 { known } else { Err(unknown()) } });
            }
            Effect::RunHook { name, id, hook, .. } => self.send(Event::HookDone { name, id, hook, result: Ok(()) }),
            Effect::Remove { sandboxes } => {
                sandboxes.iter().for_each(|id| drop(self.sandboxes.remove(id)));
                self.containers.clear();
                self.send(Event::Removed(if fault == 0 { Ok(()) } else { Err(unknown()) }));
            }
            Effect::TearDown => {
                let live = self.containers.values().any(|c| c.state == RunState::Running);
                assert!(!live, "volumes go while a container runs");
                self.send(Event::TornDown(if fault == 0 { Ok(()) } else { Err("x".into()) }));
            }
            Effect::Delete => self.send(Event::Deleted(if fault == 0 { Ok(()) } else { Err("x".into()) })),
            Effect::Forget => self.forgotten = true,
            Effect::Status(_) | Effect::Tell { .. } => {}
        }
    }
    fn start(&mut self, name: String, attempt: u32, fault: u8) {
        let id = format!("{name}{attempt}");
        let at = self.now().wall;
        let done = name == "i";
        let running = self.containers.values().any(|c| c.name == name && c.state == RunState::Running);
        assert!(!running, "{name} would run twice");
        if fault != 1 {
            let state = if done { RunState::Exited } else { RunState::Running };
            let seen = ContainerSeen {
                id: id.clone(),
                name: name.clone(),
                attempt,
                state,
                finished_at: done.then_some(at),
                started_at: Some(at),
                ..ContainerSeen::default()
            };
            self.containers.insert(id.clone(), seen);
        }
        match fault {
            0 => self.send(Event::Started { name, attempt, id, image_id: "x".into(), at }),
            1 => self.send(Event::StartFailed { name, attempt, failure: StartFailure::Create("x".into()) }),
            _ => self.send(Event::StartFailed { name, attempt, failure: StartFailure::Unknown("x".into()) }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_run_keeps_the_laws_and_a_deleted_pod_ends(
        policy in 0u8..3,
        script in proptest::collection::vec((0u8..12, 0usize..8, 0u8..3), 1..120),
    ) {
        let mut w = World::new(policy);
        for (what, index, fault) in script {
            match what {
                0 => { w.ms += 700; w.send(Event::Tick); }
                1 => { w.ms += 20_000; w.send(Event::Tick); }
                2 => w.observe(),
                3 => { let id = w.containers.keys().nth(index).cloned().unwrap_or_default(); w.kill(&id); }
                4 if fault == 2 => w.sandboxes.values_mut().for_each(|s| s.ready = false),
                // The agent restarts: only the pod and what it last reported are left.
                5 if fault == 2 => {
                    let mut pod = (*w.s.pod).clone();
                    pod.status = w.s.reported.clone();
                    w.s = State::new(Arc::new(pod), Arc::new(Facts::default()));
                    w.waiting.clear();
                    w.ms += 50;
                    w.send(Event::Tick);
                }
                _ => w.answer(index, if index == 7 { fault } else { 0 }),
            }
        }
        let mut pod = (*w.s.pod).clone();
        pod.metadata.deletion_timestamp = Some(w.now().wall);
        pod.metadata.deletion_grace_period_seconds = Some(5);
        w.send(Event::Desired(Arc::new(pod)));
        for _ in 0..400 {
            if w.forgotten {
                break;
            }
            if w.waiting.is_empty() {
                w.ms += 1_000;
                w.observe();
            }
            w.answer(0, 0);
        }
        prop_assert!(w.forgotten, "the pod never ended: {:?} waiting {:?}", w.s, w.waiting);
        prop_assert!(w.sandboxes.is_empty(), "left: {:?}", w.sandboxes);
    }
}
