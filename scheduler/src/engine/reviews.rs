//! Questions about placement: why a pod waits, or where pods of a template would fit. Answered from the live snapshot by the
//! same filters that decide; nothing is changed by asking.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::meta::Uid;

use super::{Effect, Engine};
use crate::api::{PlacementReview, Pod};
use crate::class::Class;
use crate::explain::report::{self, Fits, Preempting, Queued, Report, TeamShare};
use crate::pod::PodInfo;
use crate::preempt::{Budget, preempt};
use crate::queue::Place;
use crate::schedule::{Decision, explain, schedule};

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

    pub(super) fn answer_reviews(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        for (_, review) in std::mem::take(&mut self.reviews) {
            let answer = self.answer(&review, now_ms);
            effects.push(Effect::Answer { review, answer: answer.map(Box::new) });
        }
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
                Ok(self.replicas(&pod, review.spec.replicas.max(1) as usize))
            }
            None => self.waiting(namespace, &review.spec.pod_name, now_ms),
        }
    }

    /// Why this pod waits.
    fn waiting(&mut self, namespace: &str, name: &str, now_ms: u64) -> Result<Report, String> {
        let found = self.pending.values().find(|p| p.info.namespace == *namespace && &*p.info.name == name);
        let Some(pending) = found else { return Err(self.not_waiting(namespace, name)) };
        let (info, since_ms) = (pending.info.clone(), pending.since_ms);
        // Its own hold is not in its way.
        let hold = self.nominated.remove(&info.uid).map(|nomination| {
            let machine = nomination.hold.machine();
            self.snapshot.forget(nomination.hold);
            (machine, nomination.victims, nomination.until_ms)
        });
        let class = self.class_of(&info);
        let mut report = report::filters(&self.snapshot, &class);
        report.preemption = Some(self.could_preempt(&class));
        if let Some((machine, victims, until_ms)) = hold {
            let hold = self.snapshot.hold(info.clone(), machine);
            self.nominated.insert(info.uid.clone(), super::Nomination { hold, victims, until_ms });
        }
        report.queue = Some(self.queued(&info, since_ms, now_ms));
        report.team = Some(self.team_share(&info));
        Ok(report)
    }

    fn not_waiting(&self, namespace: &str, name: &str) -> String {
        let placed = self.snapshot.placed().find(|p| p.info.namespace == *namespace && &*p.info.name == name);
        match placed {
            Some(placed) => format!("pod {namespace}/{name} has its machine: {}", self.snapshot.name(placed.machine)),
            None => format!(
                "pod {namespace}/{name} does not wait for this scheduler: it does not exist, has ended, is being deleted, has \
                 scheduling gates, or names another schedulerName"
            ),
        }
    }

    fn could_preempt(&mut self, class: &Class) -> Preempting {
        let no = |why: &str| Preempting { possible: false, why: why.to_owned(), machine: None, victims: Vec::new() };
        if !class.spec.may_preempt {
            return no("its preemptionPolicy is Never");
        }
        if self.snapshot.lowest_priority().is_none_or(|lowest| lowest >= class.spec.priority) {
            return no("no pod that runs has a lower priority");
        }
        let none = explain(&self.snapshot, class);
        if none.curable.is_empty() {
            return no("no machine refuses it only for what ending pods could change");
        }
        let budgets: Vec<Budget> = self.budgets.values().cloned().collect();
        match preempt(&self.snapshot, class, &none.curable, &budgets, 0) {
            Some(found) => Preempting {
                possible: true,
                why: "ending these pods would make room".to_owned(),
                machine: Some(self.snapshot.name(found.machine).to_owned()),
                victims: found.victims.iter().map(|victim| victim.key()).collect(),
            },
            None if class.band == crate::pod::Band::Production => {
                no("on no machine do pods of lower priority outside of the production band hold enough")
            }
            None => no("on no machine do pods of lower priority hold enough"),
        }
    }

    fn queued(&self, info: &PodInfo, since_ms: u64, now_ms: u64) -> Queued {
        let told = self.pending.get(&info.uid).and_then(|pending| pending.told.clone());
        let written = || self.pending.get(&info.uid)?.condition.as_ref().map(|c| c.message.clone());
        let message = told.map(|told| told.to_string()).or_else(written).unwrap_or_default();
        let waited_seconds = now_ms.saturating_sub(since_ms) / 1000;
        let none = Queued {
            state: "Binding".to_owned(),
            ahead: 0,
            attempts: 0,
            again_in_seconds: None,
            waited_seconds,
            message,
        };
        let Some((place, rank, attempts)) = self.queue.place(&info.uid) else { return none };
        let seconds = |due: u64| Some(due.saturating_sub(now_ms) / 1000);
        let (state, again_in_seconds) = match place {
            Place::Ready => ("Ready", Some(0)),
            Place::Waiting(due) => ("Waiting", seconds(due)),
            Place::Sleeping(due) => ("Sleeping", seconds(due)),
            Place::Parked => ("Gang", None),
            Place::Taken => ("Binding", None),
        };
        Queued { state: state.to_owned(), ahead: self.queue.ready().ahead_of(rank), attempts, again_in_seconds, ..none }
    }

    fn team_share(&mut self, info: &PodInfo) -> TeamShare {
        let team = self.snapshot.team(&info.namespace);
        let (share, teams) = (self.snapshot.share(team), self.snapshot.teams());
        let before = (0..teams.len()).filter(|other| self.snapshot.share(*other) < share).count();
        TeamShare { name: teams.name(team).to_owned(), share, before, teams: teams.len() }
    }

    /// How many pods like this would find a place now: placed in thought, one after another, and taken away again.
    fn replicas(&mut self, pod: &Pod, asked: usize) -> Report {
        let read = PodInfo::read(pod);
        let class = {
            let info = self.snapshot.adopt(read.clone());
            self.class_of(&info)
        };
        let mut report = report::filters(&self.snapshot, &class);
        let mut assumed = Vec::new();
        let mut on: BTreeMap<String, usize> = BTreeMap::new();
        let mut next = None;
        for at in 0..asked {
            let uid = format!("{}/{at}", read.uid).into();
            let info = self.snapshot.adopt(PodInfo { uid, ..read.clone() });
            let class = self.class_of(&info);
            match schedule(&self.snapshot, &class, at as u64, &mut self.scratch) {
                Decision::Placement(placement) => {
                    *on.entry(self.snapshot.name(placement.machine()).to_owned()).or_insert(0) += 1;
                    assumed.push(self.snapshot.assume(info, placement.machine()));
                }
                Decision::Unschedulable(none) => {
                    next = Some(crate::explain::message(&self.snapshot, &none));
                    break;
                }
            }
        }
        let fit = assumed.len();
        for assumed in assumed {
            self.snapshot.forget(assumed);
        }
        if fit < asked {
            report.preemption = Some(self.could_preempt(&class));
        }
        let mut on: Vec<(String, usize)> = on.into_iter().collect();
        on.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        on.truncate(NAMED);
        report.fits = Some(Fits { asked, fit, on, next });
        report
    }
}
