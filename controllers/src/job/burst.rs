//! Big jobs in a world that is only as much as they need: pods that are placed and end at random, a roster that follows every
//! change, looks at random moments, and a controller that stops half way through a plan.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::patch;
use gantry_apimachinery::time::Timestamp;
use gantry_client::Patch;
use proptest::prelude::*;
use serde_json::json;

use super::accounting::{AT_ONCE, FINALIZER, holds};
use super::core::reconcile;
use super::pods::BURST;
use super::roster::Roster;
use super::types::{Job, Observed};
use crate::objects::Pod;
use crate::plan::{Plan, Step, Verb, Write};

struct Burst {
    job: Job,
    /// By uid.
    pods: BTreeMap<String, Arc<Pod>>,
    roster: Roster,
    boot_ms: u64,
    binds: VecDeque<u64>,
    created: usize,
    status_writes: usize,
    looks: usize,
}

impl Burst {
    fn new(pods: usize, mode: &str) -> Self {
        let job =
            serde_json::from_value(json!({"metadata": {"name": "sum", "namespace": "ns", "uid": "job"}, "spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 1_000_000, "completionMode": mode,
            "selector": {"matchLabels": {"job": "sum"}}, "template": {"metadata": {"labels": {"job": "sum"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}));
        Burst {
            job: job.unwrap(),
            pods: BTreeMap::new(),
            roster: Roster::default(),
            boot_ms: 1_000_000,
            binds: VecDeque::new(),
            created: 0,
            status_writes: 0,
            looks: 0,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-01-01T00:00:00Z").unwrap() + std::time::Duration::from_millis(self.boot_ms)
    }

    fn look(&mut self) -> Plan {
        let recent_binds = self.roster.recent_binds(self.boot_ms);
        let observed = Observed { job: Some(Arc::new(self.job.clone())), recent_binds, ..Observed::default() };
        self.looks += 1;
        let plan = reconcile(&observed, &self.roster, self.now());
        self.check_pace(&plan);
        plan
    }

    /// No more pods wait for a machine than 500, or than got one in the last two seconds.
    fn check_pace(&mut self, plan: &Plan) {
        let creates = plan.writes().filter(|write| matches!(write.verb, Verb::Create(_))).count();
        let now = self.boot_ms;
        self.binds.retain(|at| now - at < 2_000);
        let waiting = self.pods.values().filter(|pod| pod.is_active() && pod.node().is_none()).count();
        assert!(creates <= BURST);
        assert!(creates == 0 || waiting + creates <= self.binds.len().max(500), "{waiting} wait, {creates} more come");
    }

    fn put(&mut self, uid: &str, pod: Option<Pod>) {
        let new = pod.map(Arc::new);
        let old = match &new {
            Some(new) => self.pods.insert(uid.to_owned(), new.clone()),
            None => self.pods.remove(uid),
        };
        self.roster.change(old.as_ref(), new.as_ref(), self.boot_ms);
    }

    fn edit(&mut self, uid: &str, edit: impl FnOnce(&mut Pod)) {
        let mut pod = (*self.pods[uid]).clone();
        edit(&mut pod);
        self.put(uid, Some(pod));
    }

    fn apply(&mut self, plan: &Plan) {
        plan.writes().for_each(|write| self.write(write));
    }

    fn write(&mut self, write: &Write) {
        match &write.verb {
            Verb::Create(body) => {
                self.created += 1;
                let uid = format!("uid-{:06}", self.created);
                let mut pod: Pod = serde_json::from_value(body.clone()).unwrap();
                (pod.metadata.name, pod.metadata.uid) = (format!("sum-{}", self.created), uid.as_str().into());
                self.put(&uid, Some(pod));
            }
            Verb::Patch { subresource: Some("status"), patch: Patch::Merge(body) } => {
                self.status_writes += 1;
                let mut status = json!({"status": self.job.status});
                let body = json!({"status": body["status"]});
                patch::merge::apply(&mut status, &body);
                self.job.status = serde_json::from_value(status["status"].take()).unwrap();
                let uncounted = &self.job.status.uncounted_terminated_pods;
                assert!(uncounted.succeeded.len() + uncounted.failed.len() <= AT_ONCE);
            }
            Verb::Patch { patch: Patch::Json(operations), .. } => {
                assert_eq!(operations[1]["value"], FINALIZER);
                let uid = operations[0]["value"].as_str().unwrap().to_owned();
                self.edit(&uid, |pod| pod.metadata.finalizers.clear());
            }
            other => panic!("{} {other:?}", write.kind.plural),
        }
    }

    /// The scheduler: up to `count` of those that wait get a machine.
    fn bind(&mut self, count: usize) {
        let waiting = self.pods.iter().filter(|(_, pod)| pod.is_active() && pod.node().is_none());
        let uids: Vec<String> = waiting.take(count).map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.binds.push_back(self.boot_ms);
            self.edit(&uid, |pod| pod.spec.node_name = Some("n".to_owned()));
            self.edit(&uid, |pod| pod.status.phase = Some("Running".to_owned()));
        }
    }

    /// The agents: up to `count` of those that run end.
    fn end(&mut self, count: usize, phase: &str) -> usize {
        let running = self.pods.iter().filter(|(_, pod)| pod.phase() == "Running");
        let uids: Vec<String> = running.take(count).map(|(uid, _)| uid.clone()).collect();
        let at = self.now();
        for uid in &uids {
            self.edit(uid, |pod| {
                pod.status.phase = Some(phase.to_owned());
                let end = json!({"state": {"terminated": {"finishedAt": at}}});
                pod.status.container_statuses = vec![serde_json::from_value(end).unwrap()];
            });
        }
        uids.len()
    }

    /// Lets everything run to its end.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            let plan = self.look();
            self.apply(&plan);
            if self.job.finished().is_some() {
                return;
            }
            self.boot_ms += if plan.is_settled() { 10_000 } else { 100 };
            self.bind(usize::MAX);
            self.end(usize::MAX, "Succeeded");
        }
        panic!("never finishes: {:?}", self.job.status);
    }
}

#[derive(Clone, Debug)]
enum Move {
    Look,
    /// The controller stops after so many steps and starts anew.
    Stop(usize),
    Bind(usize),
    End(usize),
    Fail(usize),
    Pass(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Look),
        1 => (0..4_usize).prop_map(Move::Stop),
        3 => (1..1_500_usize).prop_map(Move::Bind),
        2 => (1..1_200_usize).prop_map(Move::End),
        1 => (1..3_usize).prop_map(Move::Fail),
        2 => (1..900_u64).prop_map(Move::Pass),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn a_job_of_thousands_counts_every_end_once(moves in moves(), indexed in any::<bool>()) {
        let mut burst = Burst::new(5_000, if indexed { "Indexed" } else { "NonIndexed" });
        let mut failed = 0;
        for one in moves {
            match one {
                Move::Look => {
                    let plan = burst.look();
                    burst.apply(&plan);
                }
                Move::Stop(steps) => {
                    let mut plan = burst.look();
                    plan.steps.truncate(steps);
                    burst.apply(&plan);
                }
                Move::Bind(count) => burst.bind(count),
                Move::End(count) => drop(burst.end(count, "Succeeded")),
                Move::Fail(count) => failed += burst.end(count, "Failed"),
                Move::Pass(ms) => burst.boot_ms += ms,
            }
        }
        prop_assert!(burst.roster.counts == Roster::of(burst.pods.values().cloned()).counts);
        burst.finish();
        let status = burst.job.status.clone();
        prop_assert!(burst.job.condition("Complete").is_some());
        prop_assert_eq!((status.active, status.succeeded, status.failed), (0, 5_000, i32::try_from(failed).unwrap()));
        prop_assert_eq!(burst.created, 5_000 + failed);
        prop_assert!(burst.pods.values().all(|pod| !holds(pod)));
        prop_assert!(burst.look().is_settled());
        if indexed {
            prop_assert_eq!(status.completed_indexes, "0-4999");
        }
    }

    /// A roster that followed every change is the one that the pods make.
    #[test]
    fn a_roster_is_what_its_pods_make(steps in prop::collection::vec((0..6_usize, 0..10_u8, any::<bool>()), 0..60)) {
        let mut burst = Burst::new(6, "NonIndexed");
        for (which, what, flag) in steps {
            let uid = format!("uid-{which}");
            if what == 0 || !burst.pods.contains_key(&uid) {
                let pod = json!({"metadata": {"name": uid, "uid": uid, "labels": {"a": "b"}, "finalizers": [FINALIZER]}});
                burst.put(&uid, flag.then(|| serde_json::from_value(pod).unwrap()));
                continue;
            }
            let at = burst.now();
            let words = |yes: &str, no: &str| if flag { yes } else { no }.to_owned();
            burst.edit(&uid, |pod| match what {
                1 => pod.spec.node_name = Some(words("n", "")),
                2 => pod.status.phase = Some(words("Succeeded", "Failed")),
                3 => pod.status.phase = Some(words("Running", "Pending")),
                4 => pod.metadata.deletion_timestamp = flag.then_some(at),
                5 => pod.metadata.finalizers.clear(),
                6 => drop(pod.metadata.labels.insert(words("a", super::pods::INDEX), words("c", "3"))),
                // Made again under its name.
                8 => (pod.metadata.uid, pod.spec.node_name) = (format!("{}-{which}", words("again", "anew")).as_str().into(), None),
                7 => drop(pod.metadata.annotations.insert(super::pods::INDEX.to_owned(), words("1", "2"))),
                _ => pod.spec.restart_policy = Some(words("OnFailure", "Never")),
            });
            burst.boot_ms += 1_000;
        }
        let mut followed = burst.roster.clone();
        followed.forget_binds();
        prop_assert_eq!(followed, Roster::of(burst.pods.values().cloned()));
    }
}

#[test]
fn a_fast_scheduler_may_have_as_many_waiting_as_two_seconds_bring() {
    let mut burst = Burst::new(20_000, "NonIndexed");
    let mut most = 0;
    for _ in 0..100 {
        let plan = burst.look();
        burst.apply(&plan);
        most = most.max(burst.roster.counts.unplaced);
        burst.boot_ms += 100;
        burst.bind(200);
    }
    assert!((3_700..=4_000).contains(&most), "{most} wait at 2,000 binds a second");
    assert!(burst.created > 19_000, "{} of 20,000 were created while 20,000 could be bound", burst.created);
    burst.boot_ms += 2_000;
    let plan = burst.look();
    assert!(!plan.writes().any(|write| matches!(write.verb, Verb::Create(_))), "nothing was bound for two seconds");
}

#[test]
fn a_thousand_ends_a_second_cost_few_writes_of_the_status() {
    let mut burst = Burst::new(3_000, "NonIndexed");
    while burst.created < 3_000 {
        let plan = burst.look();
        burst.apply(&plan);
        burst.boot_ms += 200;
        burst.bind(usize::MAX);
    }
    burst.status_writes = 0;
    // Ten looks a second for three seconds.
    for _ in 0..30 {
        burst.end(100, "Succeeded");
        let plan = burst.look();
        let released = plan.steps.iter().find_map(|step| match step {
            Step::All(writes) if *writes[0].kind == kinds::POD => Some(writes.len()),
            _ => None,
        });
        assert_eq!(released, Some(100), "all at once");
        burst.apply(&plan);
        burst.boot_ms += 100;
    }
    assert_eq!((burst.status_writes, burst.roster.counts.held), (30, 0));
    burst.finish();
    assert_eq!(burst.job.status.succeeded, 3_000);
}

#[test]
fn ends_that_are_written_down_come_before_more() {
    let mut burst = Burst::new(1_200, "NonIndexed");
    while burst.created < 1_200 {
        let plan = burst.look();
        burst.apply(&plan);
        burst.boot_ms += 200;
        burst.bind(usize::MAX);
    }
    // The later half ends first and is written down; then the controller stops.
    let later: Vec<String> = burst.pods.keys().skip(800).cloned().collect();
    later.iter().for_each(|uid| burst.edit(uid, |pod| pod.status.phase = Some("Succeeded".to_owned())));
    let mut plan = burst.look();
    plan.steps.truncate(1);
    burst.apply(&plan);
    assert_eq!(burst.job.status.uncounted_terminated_pods.succeeded.len(), 400);
    burst.end(800, "Succeeded");
    let plan = burst.look();
    burst.apply(&plan);
    assert!(later.iter().all(|uid| !holds(&burst.pods[uid])), "these were written down first");
    burst.finish();
    assert_eq!(burst.job.status.succeeded, 1_200);
}

#[test]
fn small_jobs_never_rest_and_big_ones_little() {
    let ms = |pods: usize| super::rest(pods).as_millis();
    assert_eq!([ms(0), ms(99), ms(100), ms(5_000), ms(50_000), ms(1_000_000)], [0, 0, 20, 20, 100, 200]);
}
