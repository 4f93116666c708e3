//! Questions about placement: why a pod waits, or where pods of a template would fit. Answered from the live snapshot by the
//! same filters that decide; nothing is changed by asking.

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::meta::Uid;

use super::{Effect, Engine};
use crate::api::{PlacementReview, Pod};
use crate::class::Class;
use crate::explain::report::{self, Fits, Report, Taking};
use crate::pod::PodInfo;
use crate::schedule::{Decision, Unschedulable, schedule};
use crate::snapshot::Assumed;

/// Questions about pods that are answered in one turn: each asks all machines.
const A_TURN: usize = 4;
/// Machines named in an answer about replicas.
const NAMED: usize = 20;

impl Engine {
    /// An unanswered question waits for the next turn.
    pub(super) fn review(&mut self, review: &Arc<PlacementReview>) {
        let key = (review.metadata.namespace.clone(), review.metadata.name.clone());
        if review.status.phase.is_empty() {
            self.reviews.insert(key, review.clone());
        } else {
            self.reviews.remove(&key);
        }
    }

    /// A few of those that wait; of those about templates, which may be of many pods, one: pods are decided in between.
    pub(super) fn answer_reviews(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let (mut templates, mut left) = (1, A_TURN);
        let mut later = BTreeMap::new();
        for (key, review) in std::mem::take(&mut self.reviews) {
            let left = if review.spec.template.is_some() { &mut templates } else { &mut left };
            if *left == 0 {
                later.insert(key, review);
                continue;
            }
            *left -= 1;
            let answer = self.answer(&review, now_ms);
            effects.push(Effect::Answer { review, answer: answer.map(Box::new) });
        }
        self.reviews = later;
    }

    fn answer(&mut self, review: &PlacementReview, now_ms: u64) -> Result<Report, String> {
        let namespace = &review.metadata.namespace;
        match &review.spec.template {
            Some(template) => {
                let mut pod =
                    Pod { metadata: template.metadata.clone(), spec: template.spec.clone(), ..Pod::default() };
                pod.metadata.namespace.clone_from(namespace);
                pod.metadata.name = "replica".to_owned();
                pod.metadata.uid = Uid(format!("review/{}", review.metadata.uid));
                self.admit(&mut pod)?;
                Ok(self.replicas(&pod, review.spec.replicas.max(1) as usize))
            }
            None => self.waiting(namespace, &review.spec.pod_name, now_ms),
        }
    }

    /// Says of a template's pod what admission would say of a pod: its priority.
    fn admit(&self, pod: &mut Pod) -> Result<(), String> {
        let spec = &mut pod.spec;
        if let Some(why) = super::strangers::other_scheduler(&spec.scheduler_name, &self.schedulers) {
            return Err(format!("a pod of this template {why}"));
        }
        let class = match spec.priority_class_name.as_str() {
            "" => self.priorities.values().filter(|class| class.global_default).min_by_key(|class| class.value),
            name => Some(self.priorities.get(name).ok_or_else(|| format!("there is no PriorityClass {name}"))?),
        };
        if let Some(class) = class {
            spec.priority_class_name.clone_from(&class.metadata.name);
            spec.priority = class.value;
            spec.preemption_policy.clone_from(&class.preemption_policy);
        }
        Ok(())
    }

    /// Why this pod waits.
    fn waiting(&mut self, namespace: &str, name: &str, now_ms: u64) -> Result<Report, String> {
        let found = self.pending.values().find(|p| p.info.namespace == *namespace && &*p.info.name == name);
        let Some(pending) = found else { return Err(self.not_waiting(namespace, name)) };
        let (info, since_ms) = (pending.info.clone(), pending.since_ms);
        let making_room = self.making_room(&info, now_ms);
        // Its own hold is not in its way.
        let held = self.release_nomination(&info.uid);
        let class = self.class_of(&info);
        let mut report = report::filters(&self.snapshot, &class);
        let gang = self.gang_told(&info);
        let alone = gang.as_ref().is_none_or(|gang| gang.state.is_started());
        if let Some(gang) = gang {
            report.gang = Some(gang.state);
            report.preemption = gang.preemption;
            if let Some(next) = gang.next.filter(|_| report.feasible > 0) {
                (report.filters, report.nearest) = (next.filters, next.nearest);
            }
        }
        if alone && report.feasible == 0 {
            report.preemption = Some(self.could_preempt(&class));
        }
        self.keep(&info, held);
        report.making_room = making_room;
        report.queue = Some(self.queued(&info, since_ms, now_ms));
        report.team = Some(self.team_share(&info));
        Ok(report)
    }

    fn not_waiting(&self, namespace: &str, name: &str) -> String {
        let placed = self.snapshot.placed().find(|p| p.info.namespace == *namespace && &*p.info.name == name);
        match (placed, self.strangers.why(namespace, name)) {
            (Some(placed), _) => {
                format!("pod {namespace}/{name} has its machine: {}", self.snapshot.name(placed.machine))
            }
            (None, Some(why)) => format!("pod {namespace}/{name} {why}"),
            (None, None) => format!("pod {namespace}/{name} does not wait: it does not exist, or has ended"),
        }
    }

    /// How many pods like this would find a place now: placed in thought, one after another, and taken away again.
    fn replicas(&mut self, pod: &Pod, asked: usize) -> Report {
        let read = PodInfo::read(pod);
        let one = |at: usize| PodInfo { uid: format!("{}/{at}", read.uid).into(), ..read.clone() };
        let class = self.class_of_new(one(0));
        let mut report = report::filters(&self.snapshot, &class);
        let (assumed, next) = self.in_thought((0..asked).map(one));
        let mut on: BTreeMap<String, usize> = BTreeMap::new();
        for assumed in &assumed {
            *on.entry(self.snapshot.name(assumed.machine()).to_owned()).or_insert(0) += 1;
        }
        if next.is_some() {
            // What is told of machines is about the one that does not fit any more.
            let class = self.class_of_new(one(assumed.len()));
            let after = report::filters(&self.snapshot, &class);
            (report.filters, report.nearest) = (after.filters, after.nearest);
            report.preemption = Some(self.could_preempt(&class));
        }
        let next = next.map(|none| crate::explain::message(&self.snapshot, &none));
        let fit = assumed.len();
        self.forget_all(assumed);
        let machines = on.len();
        let mut on: Vec<Taking> = on.into_iter().map(|(machine, replicas)| Taking { machine, replicas }).collect();
        on.sort_by_key(|taking| std::cmp::Reverse(taking.replicas));
        on.truncate(NAMED);
        report.fits = Some(Fits { asked, fit, machines, on, next });
        report
    }

    fn class_of_new(&mut self, info: PodInfo) -> Arc<Class> {
        let info = self.snapshot.adopt(info);
        self.class_of(&info)
    }

    /// Assumes one pod after another until one fits nowhere. The caller owes `forget_all`.
    fn in_thought(&mut self, pods: impl Iterator<Item = PodInfo>) -> (Vec<Assumed>, Option<Unschedulable>) {
        let mut assumed = Vec::new();
        for (turn, info) in pods.enumerate() {
            let info = self.snapshot.adopt(info);
            let class = self.class_of(&info);
            match schedule(&self.snapshot, &class, turn as u64, &mut self.scratch) {
                Decision::Placement(placement) => assumed.push(self.snapshot.assume(info, placement.machine())),
                Decision::Unschedulable(none) => return (assumed, Some(none)),
            }
        }
        (assumed, None)
    }

    fn forget_all(&mut self, assumed: Vec<Assumed>) {
        for assumed in assumed {
            self.snapshot.forget(assumed);
        }
    }
}
