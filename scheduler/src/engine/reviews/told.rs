//! What an answer tells beside the machines: whether ending pods could help, what is under way, the queue, the team, the gang.
//! Names of pods go no further than their namespace.

use std::sync::Arc;

use crate::class::Class;
use crate::engine::Engine;
use crate::engine::gangs::{ASKED, MOST};
use crate::explain::report::{self, GangState, MakingRoom, Preempting, Queued, Report, TeamShare, Victims};
use crate::pod::{Band, PodInfo};
use crate::preempt::{Budget, preempt};
use crate::queue::Place;
use crate::schedule::{Decision, explain, schedule};

/// What is told of a waiting pod's gang.
pub(super) struct GangTold {
    pub state: GangState,
    /// Whether ending pods could help all of it.
    pub preemption: Option<Preempting>,
    /// The machines as they would be for the first pod that finds no place beside those before it.
    pub next: Option<Report>,
}

impl Engine {
    pub(super) fn could_preempt(&mut self, class: &Class) -> Preempting {
        if !class.spec.may_preempt {
            return no("its preemptionPolicy is Never");
        }
        if self.snapshot.least_importance().is_none_or(|least| least >= class.importance()) {
            return no("no pod that has a machine is of a lower priority");
        }
        let none = explain(&self.snapshot, class);
        if none.curable.is_empty() {
            return no("on every machine something is in its way that ending pods would not change");
        }
        let budgets: Vec<Budget> = self.budgets.values().cloned().collect();
        match preempt(&self.snapshot, class, &none.curable, &budgets, 0) {
            Some(found) => Preempting {
                possible: true,
                why: "ending these pods would make room".to_owned(),
                machine: Some(self.snapshot.name(found.machine).to_owned()),
                victims: Victims::seen_from(&class.spec.namespace, found.victims.iter().map(|victim| &**victim)),
            },
            None if class.band == Band::Production => {
                no("on no machine do pods of lower priority outside of the production band hold enough")
            }
            None => no("on no machine do pods of lower priority hold enough"),
        }
    }

    pub(super) fn making_room(&self, info: &PodInfo, now_ms: u64) -> Option<MakingRoom> {
        let nomination = self.nominated.get(&info.uid)?;
        let victims = nomination.waits.victims.iter().filter_map(|uid| self.snapshot.placement(uid));
        Some(MakingRoom {
            machine: self.snapshot.name(nomination.hold.machine()).to_owned(),
            victims: Victims::seen_from(&info.namespace, victims.map(|placed| &*placed.info)),
            kept_for_seconds: nomination.waits.until_ms.map(|until| until.saturating_sub(now_ms) / 1000),
        })
    }

    pub(super) fn queued(&self, info: &PodInfo, since_ms: u64, now_ms: u64) -> Queued {
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

    pub(super) fn team_share(&mut self, info: &PodInfo) -> TeamShare {
        let team = self.snapshot.team(&info.namespace);
        let (share, teams) = (self.snapshot.share(team), self.snapshot.teams());
        let before = (0..teams.len()).filter(|other| self.snapshot.share(*other) < share).count();
        TeamShare { name: teams.name(team).to_owned(), share, before, teams: teams.len() }
    }

    /// How its gang stands. What is told of a gang that fits, and of a pod that goes by itself, is the state alone.
    pub(super) fn gang_told(&mut self, info: &PodInfo) -> Option<GangTold> {
        let standing = self.gangs.standing(info)?;
        let needs = standing.min_member.map_or(0, |min| min as usize).saturating_sub(standing.placed);
        // Their machines are being written.
        let decided = standing.pending.iter().filter(|uid| self.deciding.contains_key(*uid)).count();
        let members = standing.pending.iter().filter(|uid| !self.deciding.contains_key(*uid));
        let members = members.filter_map(|uid| self.pending.get(uid)).map(|pending| pending.info.clone());
        let members: Vec<Arc<PodInfo>> = members.take(MOST).collect();
        // What is held for them is not in their way, and none of it is touched by placing them in thought.
        let held: Vec<_> = members.iter().map(|member| self.release_nomination(&member.uid)).collect();
        let (mut assumed, mut refused) = (Vec::new(), Vec::<Arc<Class>>::new());
        for (turn, member) in members.iter().enumerate() {
            let class = self.class_of(member);
            if refused.len() == ASKED || refused.iter().any(|other| other.id == class.id) {
                continue;
            }
            let decision = schedule(&self.snapshot, &class, turn as u64, &mut self.scratch);
            let Decision::Placement(placement) = decision else {
                refused.push(class);
                continue;
            };
            let thought = PodInfo { uid: format!("review/{}", member.uid).into(), ..(**member).clone() };
            let thought = self.snapshot.adopt(thought);
            assumed.push(self.snapshot.assume(thought, placement.machine()));
        }
        let fit = decided + assumed.len();
        let is_short = fit < needs && needs <= standing.pending.len();
        let next = refused.first().filter(|_| is_short).map(|class| report::filters(&self.snapshot, class));
        self.forget_all(assumed);
        let preemption = (fit < needs).then(|| self.gang_could_preempt(info, &members, needs - decided));
        for (member, held) in members.iter().zip(held) {
            self.keep(member, held);
        }
        let state = GangState {
            name: info.gang.as_ref()?.name.clone(),
            min_member: standing.min_member,
            has_object: standing.has_object,
            exist: standing.pending.len() + standing.placed,
            placed: standing.placed,
            fit,
        };
        Some(GangTold { state, preemption, next })
    }

    fn gang_could_preempt(&mut self, info: &PodInfo, members: &[Arc<PodInfo>], needs: usize) -> Preempting {
        if !info.may_preempt {
            return no("its preemptionPolicy is Never");
        }
        if members.len() < needs {
            return no("its gang is not complete: nobody is ended for a part of it");
        }
        let Some(plan) = self.plan_room(members, needs) else {
            return no("pods of lower priority do not hold enough for the whole gang, for which all must fit at once");
        };
        let victims = plan.victims.values().flatten().map(|victim| &**victim);
        let victims = Victims::seen_from(&info.namespace, victims);
        let machine = plan.victims.keys().next().filter(|_| plan.victims.len() == 1);
        let machine = machine.map(|machine| self.snapshot.name(*machine).to_owned());
        self.forget_plan(plan);
        Preempting {
            possible: true,
            why: "ending these pods would make room for the whole gang".to_owned(),
            machine,
            victims,
        }
    }
}

fn no(why: &str) -> Preempting {
    Preempting { possible: false, why: why.to_owned(), machine: None, victims: Victims::default() }
}
