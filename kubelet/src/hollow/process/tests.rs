//! One pod's life on a hollow machine: what the API is told, and when.

use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::hollow::projection::slim;

const LIFE: Life = Life { startup_ms: 300, lifetime_ms: None, stopping_ms: 200, exit_code: 0 };

struct Bench {
    process: Process,
    ms: u64,
}

fn pod(spec: Value, status: Value) -> Arc<Pod> {
    let meta = json!({"name": "p", "namespace": "ns", "uid": "u"});
    let pod = json!({"metadata": meta, "spec": spec, "status": status});
    Arc::new(slim(serde_json::from_value(pod).unwrap()))
}

fn one(policy: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": policy})
}

fn at(ms: u64) -> Now {
    Now { wall: Timestamp::from_millis(1_700_000_000_000 + i64::try_from(ms).unwrap()), boot_ms: ms }
}

impl Bench {
    fn new(spec: Value, life: Life) -> (Self, Vec<String>) {
        Self::known(pod(spec, json!({})), life)
    }

    fn known(pod: Arc<Pod>, life: Life) -> (Self, Vec<String>) {
        let facts = Facts { runtime: "hollow".into(), host_ips: vec!["198.18.0.1".into()] };
        let host = Host { facts: Arc::new(facts), images: Arc::default() };
        let process = Process::new(pod.clone(), &host, "100.64.0.2".into(), life, at(1_000_000));
        let mut bench = Self { process, ms: 1_000_000 };
        let effects = bench.send(Event::Desired(pod));
        (bench, effects)
    }

    /// Events for people are left out.
    fn send(&mut self, event: Event) -> Vec<String> {
        let effects = self.process.step(at(self.ms), event);
        self.process.state.validate().unwrap();
        let plain = effects.into_iter().filter(|effect| !matches!(effect, Effect::Tell { .. }));
        plain.map(|effect| if effect == Effect::Status { self.shown() } else { format!("{effect:?}") }).collect()
    }

    /// Lets time pass until the process wakes.
    fn wait(&mut self) -> (u64, Vec<String>) {
        let before = self.ms;
        self.ms = self.process.wake_ms().expect("it waits for something");
        (self.ms - before, self.send(Event::Tick))
    }

    /// Phase, readiness, and each container: how often it began, and how it is.
    fn shown(&self) -> String {
        let status = self.process.status();
        let ready = status.condition("Ready").is_some_and(|c| c.status == "True");
        let containers = status.init_container_statuses.iter().chain(&status.container_statuses).map(|c| {
            let state = match (&c.state.waiting, &c.state.terminated) {
                (Some(w), _) => w.reason.clone(),
                (None, Some(t)) => format!("exit {}", t.exit_code),
                (None, None) => "runs".to_owned(),
            };
            format!("{}.{} {state}", c.name, c.restart_count)
        });
        let containers: Vec<String> = containers.collect();
        format!("{}{}: {}", status.phase, if ready { " ready" } else { "" }, containers.join(", "))
    }
}

#[test]
fn a_service_starts_and_is_stopped_when_it_is_deleted() {
    let (mut b, effects) = Bench::new(one("Always"), LIFE);
    assert_eq!(effects, Vec::<String>::new(), "it starts soon enough to be told of once");
    assert_eq!(b.wait(), (300, vec!["Running ready: c.0 runs".to_owned()]));
    assert_eq!(b.process.status().pod_ip.as_deref(), Some("100.64.0.2"));
    assert_eq!(b.process.started("c"), Some(at(1_000_300).wall));
    assert_eq!(b.process.wake_ms(), None);
    let mut deleted = Pod::clone(b.process.pod());
    deleted.metadata.deletion_timestamp = Some(at(b.ms).wall);
    deleted.metadata.deletion_grace_period_seconds = Some(30);
    assert_eq!(b.send(Event::Desired(Arc::new(deleted))), Vec::<String>::new());
    assert_eq!(b.wait(), (200, vec!["Failed: c.0 exit 143".to_owned(), "Delete".to_owned()]));
    assert_eq!(b.send(Event::Deleted(Err("no answer".into()))), Vec::<String>::new());
    assert_eq!(b.wait(), (1_000, vec!["Delete".to_owned()]));
    assert_eq!(b.send(Event::Deleted(Ok(()))), ["Forget"]);
}

#[test]
fn grace_bounds_how_long_stopping_takes() {
    let (mut b, _) = Bench::new(one("Always"), Life { stopping_ms: 60_000, ..LIFE });
    b.wait();
    let mut deleted = Pod::clone(b.process.pod());
    deleted.metadata.deletion_timestamp = Some(at(b.ms).wall);
    deleted.metadata.deletion_grace_period_seconds = Some(5);
    b.send(Event::Desired(Arc::new(deleted.clone())));
    b.ms += 1_000;
    deleted.metadata.deletion_grace_period_seconds = Some(0);
    assert_eq!(b.send(Event::Desired(Arc::new(deleted))), ["Failed: c.0 exit 137", "Delete"]);
}

#[test]
fn a_task_ends_after_its_time_as_it_is_told() {
    let (mut b, _) = Bench::new(one("Never"), Life { lifetime_ms: Some(5_000), ..LIFE });
    b.wait();
    assert_eq!(b.wait(), (5_000, vec!["Succeeded: c.0 exit 0".to_owned()]));
    assert_eq!(b.process.wake_ms(), None);

    let (mut b, _) = Bench::new(one("Never"), Life { lifetime_ms: Some(0), exit_code: 3, ..LIFE });
    assert_eq!(b.wait(), (300, vec!["Failed: c.0 exit 3".to_owned()]));
}

#[test]
fn what_fails_is_restarted_with_the_agents_back_off() {
    let (mut b, _) = Bench::new(one("OnFailure"), Life { lifetime_ms: Some(1_000), exit_code: 1, ..LIFE });
    b.wait();
    let mut seen = vec![];
    for _ in 0..3 {
        seen.push(b.wait());
    }
    let words: Vec<String> = seen.iter().flat_map(|(_, effects)| effects.clone()).collect();
    assert!(words.iter().any(|w| w == "Running: c.1 CrashLoopBackOff"), "{seen:?}");
    assert!(seen.iter().any(|(waited_ms, _)| *waited_ms > 5_000), "{seen:?}");
}

#[test]
fn a_running_pod_fails_on_demand() {
    let (mut b, _) = Bench::new(one("Always"), LIFE);
    b.wait();
    b.ms += 50_000;
    b.process.set_life(Life { lifetime_ms: Some(0), exit_code: 9, ..LIFE });
    assert_eq!(b.process.wake_ms(), Some(1_000_300));
    let effects = b.send(Event::Tick);
    assert!(b.process.status().container_statuses[0].restart_count >= 1, "{effects:?}");
    assert_eq!(b.process.status().container_statuses[0].last_state.terminated.as_ref().map(|t| t.exit_code), Some(9));
}

#[test]
fn init_containers_end_and_sidecars_run_on() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "initContainers": [
        {"name": "init", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]});
    let (mut b, _) = Bench::new(spec, Life { lifetime_ms: Some(4_000), startup_ms: 0, ..LIFE });
    assert_eq!(b.shown(), "Running ready: init.0 exit 0, side.0 runs, c.0 runs");
    assert_eq!(b.wait().0, 4_000);
    let (_, effects) = b.wait();
    assert_eq!(effects, ["Succeeded: init.0 exit 0, side.0 exit 143, c.0 exit 0"]);
}

#[test]
fn a_readiness_probe_passes_after_its_delay() {
    let spec = json!({"containers": [{"name": "c", "image": "i",
        "readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 4}}]});
    let (mut b, _) = Bench::new(spec, LIFE);
    assert_eq!(b.wait(), (300, vec!["Running: c.0 runs".to_owned()]));
    assert_eq!(b.wait(), (4_000, vec!["Running ready: c.0 runs".to_owned()]));
    assert_eq!(b.process.wake_ms().map(|at_ms| at_ms - b.ms), Some(3_600_000));
}

#[test]
fn what_ran_before_the_agent_began_runs_on() {
    let (mut b, _) = Bench::new(one("Never"), Life { lifetime_ms: Some(60_000), ..LIFE });
    b.wait();
    let mut told = Pod::clone(b.process.pod());
    told.status = b.process.status().clone();
    let (mut again, effects) = Bench::known(Arc::new(told.clone()), Life { lifetime_ms: Some(60_000), ..LIFE });
    // The agent tells once more what it found; the container is the same.
    assert_eq!(effects, ["Running ready: c.0 runs"]);
    assert_eq!(again.process.status().container_statuses, told.status.container_statuses);
    assert_eq!(again.wait(), (60_000, vec!["Succeeded: c.0 exit 0".to_owned()]));

    // One that has ended is left alone.
    told.status = again.process.status().clone();
    let (ended, effects) = Bench::known(Arc::new(told), LIFE);
    assert_eq!((effects, ended.process.wake_ms()), (vec![], None));
}

#[test]
fn a_pod_that_the_store_no_longer_has_is_forgotten() {
    let (mut b, _) = Bench::new(one("Always"), LIFE);
    b.wait();
    b.send(Event::Vanished);
    let (_, effects) = b.wait();
    assert_eq!(effects.last().map(String::as_str), Some("Forget"));
}
