//! One job's pods and what its controller counts of them, kept up with every change, so that a look costs what needs something
//! and not what is there. Decides how a pod counts; never what the job does about it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::time::Timestamp;

use super::accounting;
use super::binds::Binds;
use super::pods::{self, INDEX};
use crate::objects::Pod;

/// Found by its uid.
#[derive(Clone, Debug)]
struct Member(Arc<Pod>);

impl Borrow<str> for Member {
    fn borrow(&self) -> &str {
        self.0.metadata.uid.as_str()
    }
}

impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.metadata.uid.cmp(&other.0.metadata.uid)
    }
}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Member {}

/// What is counted of pods. Of a single pod, its share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Neither ended nor told to end; the next four are among these.
    pub active: usize,
    pub ready: usize,
    /// With an index to work on.
    pub indexed: usize,
    /// Without a machine.
    pub unplaced: usize,
    pub restarts: usize,
    /// Told to end and not ended yet.
    pub terminating: usize,
    /// Held by the job's accounting.
    pub held: usize,
    /// Whose containers restart in place.
    pub in_place: usize,
}

impl Counts {
    pub fn of(pod: &Pod) -> Self {
        let (active, one) = (pod.is_active(), usize::from);
        let runs = active && matches!(pod.phase(), "Running" | "Pending");
        let init: i32 = pod.status.init_container_statuses.iter().map(|c| c.restart_count).sum();
        Counts {
            active: one(active),
            ready: one(active && pod.is_ready()),
            indexed: one(active && pods::index(pod).is_some()),
            unplaced: one(active && pod.node().is_none()),
            restarts: if runs { usize::try_from(init + pod.restarts()).unwrap_or(0) } else { 0 },
            terminating: one(!pod.is_finished() && pod.is_terminating()),
            held: one(accounting::holds(pod)),
            in_place: one(pod.spec.restart_policy.as_deref() == Some("OnFailure")),
        }
    }

    fn change(&mut self, other: &Self, with: impl Fn(usize, usize) -> usize) {
        self.active = with(self.active, other.active);
        self.ready = with(self.ready, other.ready);
        self.indexed = with(self.indexed, other.indexed);
        self.unplaced = with(self.unplaced, other.unplaced);
        self.restarts = with(self.restarts, other.restarts);
        self.terminating = with(self.terminating, other.terminating);
        self.held = with(self.held, other.held);
        self.in_place = with(self.in_place, other.in_place);
    }
}

/// How often each value occurs; those that do not are absent.
type Tally<T> = BTreeMap<T, usize>;

fn raise<T: Ord>(tally: &mut Tally<T>, value: T) {
    *tally.entry(value).or_default() += 1;
}

fn lower<T: Ord>(tally: &mut Tally<T>, value: &T) {
    if let Some(count) = tally.get_mut(value) {
        *count -= 1;
        if *count == 0 {
            tally.remove(value);
        }
    }
}

type Labels = BTreeMap<String, String>;

/// The pods of one job, ended ones too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roster {
    all: BTreeSet<Member>,
    /// Those that the accounting holds although they ended, or are told to.
    ends: BTreeSet<Member>,
    pub counts: Counts,
    /// The indexes that active pods work on, and those that terminating ones do.
    active_indexes: Tally<usize>,
    going_indexes: Tally<usize>,
    /// Those that more than one active pod works on.
    repeated: BTreeSet<usize>,
    succeeded_at: Tally<Timestamp>,
    failed_at: Tally<Timestamp>,
    /// Labels without the index: all pods of one template have the same.
    labels: Tally<Labels>,
    binds: Binds,
}

impl Roster {
    /// Of these pods, none of which was seen to be placed.
    pub fn of(pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut roster = Roster::default();
        pods.into_iter().for_each(|pod| roster.enter(&pod));
        roster
    }

    /// Takes in one pod's state before and after a change.
    pub fn change(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, boot_ms: u64) {
        if let (Some(before), Some(after)) = (old, new) {
            if before.metadata.uid != after.metadata.uid {
                // Made again under its name.
                self.change(old, None, boot_ms);
                return self.change(None, new, boot_ms);
            }
            if before.node().is_none() && after.node().is_some() {
                self.binds.seen(boot_ms);
            }
        }
        if let Some(old) = old {
            self.discount(old);
        }
        match (old, new) {
            (_, Some(new)) => self.enter(new),
            (Some(old), None) => drop(self.all.remove(old.metadata.uid.as_str())),
            (None, None) => {}
        }
    }

    /// Puts it in, in its former state's place.
    fn enter(&mut self, pod: &Arc<Pod>) {
        self.counts.change(&Counts::of(pod), |a, b| a + b);
        if let Some((tally, value)) = self.marks(pod) {
            raise(tally, value);
            self.note_repeated(value);
        }
        if let Some((tally, at)) = self.end_times(pod) {
            raise(tally, at);
        }
        match self.labels.get_mut(&pod.metadata.labels) {
            Some(count) => *count += 1,
            None => raise(&mut self.labels, shared(&pod.metadata.labels)),
        }
        if is_end(pod) {
            self.ends.insert(Member(pod.clone()));
        }
        self.all.replace(Member(pod.clone()));
    }

    fn discount(&mut self, pod: &Arc<Pod>) {
        if is_end(pod) {
            self.ends.remove(pod.metadata.uid.as_str());
        }
        self.counts.change(&Counts::of(pod), usize::saturating_sub);
        if let Some((tally, value)) = self.marks(pod) {
            lower(tally, &value);
            self.note_repeated(value);
        }
        if let Some((tally, at)) = self.end_times(pod) {
            lower(tally, &at);
        }
        let has_index = pod.metadata.labels.contains_key(INDEX);
        if has_index {
            lower(&mut self.labels, &shared(&pod.metadata.labels));
        } else {
            lower(&mut self.labels, &pod.metadata.labels);
        }
    }

    fn marks(&mut self, pod: &Pod) -> Option<(&mut Tally<usize>, usize)> {
        let index = pods::index(pod).filter(|_| !pod.is_finished())?;
        Some((if pod.is_terminating() { &mut self.going_indexes } else { &mut self.active_indexes }, index))
    }

    fn note_repeated(&mut self, index: usize) {
        if self.active_indexes.get(&index).is_some_and(|count| *count > 1) {
            self.repeated.insert(index);
        } else {
            self.repeated.remove(&index);
        }
    }

    fn end_times(&mut self, pod: &Pod) -> Option<(&mut Tally<Timestamp>, Timestamp)> {
        let tally = match pod.phase() {
            "Succeeded" => &mut self.succeeded_at,
            "Failed" => &mut self.failed_at,
            _ => return None,
        };
        Some((tally, pod.finished_at()?))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.all.get(uid).map(|member| &member.0)
    }

    /// All pods; as many steps as there are.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.all.iter().map(|member| &member.0)
    }

    /// The held pods that ended or are told to.
    pub fn ends(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.ends.iter().map(|member| &member.0)
    }

    /// The held pods; as many steps as there are pods, none when none is held.
    pub fn held(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let any = self.counts.held > 0;
        self.iter().filter(move |_| any).filter(|pod| accounting::holds(pod)).take(self.counts.held)
    }

    /// Whether the selector matches every pod. May say no although it does, when it asks for the index.
    pub fn all_match(&self, selector: &Selector) -> bool {
        let asks_index = selector.requirements().iter().any(|r| r.key == INDEX);
        (!asks_index || self.is_empty()) && self.labels.keys().all(|labels| selector.matches(labels))
    }

    /// In order, and each as often as pods have it.
    pub fn active_indexes(&self) -> impl Iterator<Item = usize> {
        self.active_indexes.iter().flat_map(|(index, count)| std::iter::repeat_n(*index, *count))
    }

    /// Whether an active pod works on an index with another one, on none, or on one that is not below `completions`.
    pub fn has_surplus(&self, completions: usize) -> bool {
        let beyond = self.active_indexes.range(completions..).next().is_some();
        beyond || !self.repeated.is_empty() || self.counts.indexed < self.counts.active
    }

    pub fn going_indexes(&self) -> impl Iterator<Item = usize> {
        self.going_indexes.keys().copied()
    }

    /// How many pods failed since the last success, and when the last of them did.
    pub fn failures(&self) -> Option<(usize, Timestamp)> {
        let last_success = self.succeeded_at.last_key_value().map(|(at, _)| *at);
        let (last, _) = self.failed_at.last_key_value()?;
        let since = |at: &Timestamp| last_success.is_none_or(|success| *at > success);
        let recent = self.failed_at.iter().rev().take_while(|(at, _)| since(at)).map(|(_, count)| count).sum();
        (recent > 0).then_some((recent, *last))
    }

    /// As after a restart.
    #[cfg(test)]
    pub fn forget_binds(&mut self) {
        self.binds = Binds::default();
    }

    /// Pods that got a machine within the last two seconds.
    pub fn recent_binds(&self, boot_ms: u64) -> usize {
        self.binds.recent(boot_ms)
    }
}

/// Has to be counted before it may go.
fn is_end(pod: &Pod) -> bool {
    accounting::holds(pod) && (pod.is_finished() || pod.is_terminating())
}

fn shared(labels: &Labels) -> Labels {
    let mut labels = labels.clone();
    labels.remove(INDEX);
    labels
}
