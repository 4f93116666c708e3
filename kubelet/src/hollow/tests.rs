//! The fleet as a whole: events in, the exact effects out.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::meta::Uid;
use gantry_apimachinery::time::Timestamp;
use gantry_rehearsal::FleetProfile;
use serde_json::{Value, json};

use super::HollowConfig;
use super::fleet::{Effect, Event, Fleet, Written};
use super::machine::{Renewal, Reported};
use super::projection::slim;
use crate::api::Pod;
use crate::pod::Now;

const PROFILE: &str = "
classes: [{name: only}]
pods: {startup: 500ms, lifetime: 4s, stopping: 200ms}";

struct Bench {
    fleet: Fleet,
    ms: u64,
}

impl Bench {
    fn new(machines: u32, first: u32) -> Self {
        let config = HollowConfig {
            profile: FleetProfile::parse(PROFILE).unwrap(),
            seed: 1,
            machines,
            first,
            watch_per_machine: false,
            events: true,
            batch_ms: 100,
            pod_writes: 2,
            report_every_s: 0,
        };
        Self { fleet: Fleet::new(&config), ms: 1_000_000 }
    }

    /// One machine that is registered and has its Lease.
    fn ready() -> Self {
        let mut b = Self::new(1, 0);
        assert_eq!(b.send(Event::Tick), ["register 0"]);
        assert_eq!(b.send(Event::Registered { machine: 0, uid: Some("n".into()) }), ["lease 0 of n: new"]);
        assert_eq!(b.send(Event::Renewed { machine: 0, outcome: Renewal::Done }), Vec::<String>::new());
        b
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp::from_millis(1_700_000_000_000 + i64::try_from(self.ms).unwrap()), boot_ms: self.ms }
    }

    fn send(&mut self, event: Event) -> Vec<String> {
        let now = self.now();
        self.fleet.step(now, event).iter().filter_map(short).collect()
    }

    fn later(&mut self, ms: u64) -> Vec<String> {
        self.ms += ms;
        self.send(Event::Tick)
    }

    fn written(&mut self, uid: &str, outcome: Written) -> Vec<String> {
        self.send(Event::StatusWritten { uid: uid.into(), outcome })
    }
}

/// What people are told is left out.
fn short(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Register { machine } => format!("register {machine}"),
        Effect::Renew { machine, owner, create } => {
            format!("lease {machine} of {owner}{}", if *create { ": new" } else { "" })
        }
        Effect::ReportNode { machine } => format!("report {machine}"),
        Effect::WriteStatus { pod, status } => format!("status {} {}", pod.uid(), status.phase),
        Effect::Delete { pod } => format!("delete {}", pod.uid()),
        Effect::Tell { .. } => return None,
    })
}

fn pod(uid: &str, metadata: Value) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"nodeName": "hollow-00000", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in metadata.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    Arc::new(slim(serde_json::from_value(pod).unwrap()))
}

#[test]
fn a_pod_is_reported_at_each_step_and_no_oftener() {
    let mut b = Bench::ready();
    assert_eq!(b.send(Event::Pod(pod("a", json!({})))), Vec::<String>::new());
    // It starts within a second, so it is not told of before. What changes within the batch's time is one status.
    assert_eq!(b.later(500), Vec::<String>::new());
    assert_eq!(b.later(100), ["status a Running"]);
    // It ends while the first write is in flight: the next one goes after it.
    assert_eq!(b.later(3_900), Vec::<String>::new());
    assert_eq!(b.later(100), Vec::<String>::new());
    assert_eq!(b.written("a", Written::Done), ["status a Succeeded"]);
    assert_eq!(b.written("a", Written::Again), Vec::<String>::new());
    assert_eq!(b.later(1_000), ["status a Succeeded"]);
    assert_eq!(b.written("a", Written::Done), Vec::<String>::new());
    let figures = b.fleet.figures();
    assert_eq!((figures.pods, figures.finished, figures.statuses, figures.failures), (1, 1, 2, 1));
}

#[test]
fn a_deleted_pod_tells_its_end_and_then_goes() {
    let mut b = Bench::ready();
    b.send(Event::Pod(pod("a", json!({}))));
    b.later(500);
    b.later(100);
    b.written("a", Written::Done);
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30});
    assert_eq!(b.send(Event::Pod(pod("a", going))), Vec::<String>::new());
    // What the deletion waits for does not wait for more.
    assert_eq!(b.later(200), ["status a Failed"]);
    assert_eq!(b.written("a", Written::Done), ["delete a"]);
    assert_eq!(b.send(Event::Deleted { uid: "a".into(), result: Err("busy".into()) }), Vec::<String>::new());
    assert_eq!(b.later(1_000), ["delete a"]);
    assert_eq!(b.send(Event::Deleted { uid: "a".into(), result: Ok(()) }), Vec::<String>::new());
    assert_eq!(b.fleet.figures().pods, 0);
    assert_eq!(b.send(Event::PodGone("a".into())), Vec::<String>::new());
}

#[test]
fn while_paused_no_status_is_written_but_pods_go() {
    let mut b = Bench::ready();
    b.send(Event::Pause(true));
    b.send(Event::Pod(pod("a", json!({}))));
    b.send(Event::Pod(pod("b", json!({}))));
    assert_eq!(b.later(1_000), Vec::<String>::new());
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    assert_eq!(b.send(Event::Pod(pod("b", going))), ["delete b"]);
    b.send(Event::Deleted { uid: "b".into(), result: Ok(()) });
    // The machine's own reports go on.
    b.ms = 1_010_000;
    assert_eq!(b.send(Event::Tick), ["lease 0 of n"]);
    // What happened meanwhile is one status.
    assert_eq!(b.send(Event::Pause(false)), ["status a Succeeded"]);
    assert_eq!(b.send(Event::Pause(true)), Vec::<String>::new());
    assert_eq!(b.written("a", Written::Again), Vec::<String>::new());
    assert_eq!(b.later(5_000), Vec::<String>::new());
}

#[test]
fn writes_in_flight_are_bounded() {
    let mut b = Bench::ready();
    for uid in ["a", "b", "c"] {
        b.send(Event::Pod(pod(uid, json!({}))));
    }
    assert_eq!(b.later(500), Vec::<String>::new());
    assert_eq!(b.later(100), ["status a Running", "status b Running"]);
    assert!(b.fleet.wake_ms().is_some_and(|at_ms| at_ms > b.ms), "it does not turn in circles");
    assert_eq!(b.written("b", Written::Refused), ["status c Running"]);
}

#[test]
fn what_a_list_lacks_is_gone() {
    let mut b = Bench::ready();
    for uid in ["a", "b"] {
        b.send(Event::Pod(pod(uid, json!({}))));
    }
    let uids = BTreeSet::from([Uid::from("b")]);
    b.send(Event::Listed { machine: Some(7), uids: uids.clone() });
    assert_eq!(b.fleet.figures().pods, 2, "another machine's list says nothing of this one");
    b.send(Event::Listed { machine: None, uids });
    assert_eq!(b.later(500), Vec::<String>::new());
    assert_eq!(b.later(100), ["status b Running"]);
    assert_eq!(b.fleet.figures().pods, 1);
}

#[test]
fn a_pod_fails_on_demand_and_a_wrong_annotation_is_told() {
    let mut b = Bench::ready();
    b.send(Event::Pod(pod("a", json!({}))));
    b.later(500);
    b.later(100);
    b.written("a", Written::Done);
    let told = json!({"annotations": {"gantry.dev/hollow-exit-code": "7", "gantry.dev/hollow-lifetime": "0"}});
    b.send(Event::Pod(pod("a", told)));
    let now = {
        b.ms += 100;
        b.now()
    };
    let effects = b.fleet.step(now, Event::Tick);
    let [Effect::WriteStatus { status, .. }] = &effects[..] else { panic!("{effects:?}") };
    let ended = status.container_statuses[0].state.terminated.as_ref().unwrap();
    assert_eq!((status.phase.as_str(), ended.exit_code), ("Failed", 7));

    let wrong = json!({"annotations": {"gantry.dev/hollow-lifetime": "soon"}});
    let effects = b.fleet.step(now, Event::Pod(pod("w", wrong.clone())));
    let told = |e: &Effect| matches!(e, Effect::Tell { reason: "HollowAnnotation", message, .. } if message.contains("\"soon\""));
    assert_eq!(effects.iter().filter(|effect| told(effect)).count(), 1, "{effects:?}");
    let again = b.fleet.step(now, Event::Pod(pod("w", wrong)));
    assert!(!again.iter().any(told), "once is enough: {again:?}");
}

#[test]
fn machines_of_others_and_their_pods_are_none_of_its_business() {
    let mut b = Bench::new(2, 10);
    assert_eq!(b.send(Event::Tick), ["register 0", "register 1"]);
    assert_eq!((b.fleet.position("hollow-00010"), b.fleet.position("hollow-00011")), (Some(0), Some(1)));
    for name in ["hollow-00009", "hollow-00012", "hollow-10", "hollow-000010", "machine-0", ""] {
        assert_eq!(b.fleet.position(name), None, "{name}");
    }
    b.send(Event::Pod(pod("a", json!({}))));
    assert_eq!((b.later(5_000), b.fleet.figures().pods), (vec![], 0));
}

#[test]
fn a_machine_that_was_deleted_registers_again() {
    let mut b = Bench::ready();
    let seen = |uid: &str| {
        let node = json!({"metadata": {"name": "hollow-00000", "uid": uid}});
        Arc::new(serde_json::from_value(node).unwrap())
    };
    assert_eq!(b.send(Event::NodeGone(seen("older"))), Vec::<String>::new());
    assert_eq!(b.send(Event::NodeGone(seen("n"))), ["register 0"]);
    assert_eq!(b.send(Event::Registered { machine: 0, uid: Some("m".into()) }), ["lease 0 of m: new"]);
    // Node lifecycle said something that is not so.
    b.later(2_000);
    assert_eq!(b.send(Event::Node(seen("m"))), ["report 0"]);
}

#[test]
fn a_machine_whose_deletion_nobody_told_registers_again() {
    let mut b = Bench::ready();
    assert_eq!(b.later(300_000), ["lease 0 of n", "report 0"]);
    assert_eq!(b.send(Event::NodeReported { machine: 0, outcome: Reported::Failed }), Vec::<String>::new());
    assert_eq!(b.later(1_000), ["report 0"]);
    assert_eq!(b.send(Event::NodeReported { machine: 0, outcome: Reported::Gone }), ["register 0"]);
    assert_eq!(b.fleet.figures().failures, 1, "it is no failure");
    assert_eq!(b.send(Event::Renewed { machine: 0, outcome: Renewal::Otherwise }), Vec::<String>::new());
    assert_eq!(b.send(Event::Registered { machine: 0, uid: Some("m".into()) }), ["lease 0 of m: new"]);
}
