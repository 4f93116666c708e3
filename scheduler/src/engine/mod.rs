//! The scheduler's state machine: what is known, who waits, what is on its way to the store. Events in, effects out; no
//! clock, no I/O. There is one committer: placements are assumed in the order in which they are decided, and what spans
//! machines is asked again before.
//!
//! Binds to one machine go out together, from the allocation version that the ones before made; binds to different machines go
//! side by side.

mod binding;
mod deciding;
mod following;
mod gangs;
mod lists;
mod making_room;
mod message;
mod news;
mod reviews;
mod storage;
mod strangers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::{Condition, PlacementReview, PriorityClass};
use crate::class::{Classes, Profile};
use crate::pod::PodInfo;
use crate::preempt::Budget;
use crate::queue::{Depths, Queue};
use crate::schedule::Scratch;
use crate::snapshot::{Assumed, Machine, Snapshot};
use binding::{Flight, Lane};
pub use deciding::{Inline, Work, Workers};
use gangs::Gangs;
pub(crate) use gangs::TIMED_OUT;
pub use message::{Bind, BindOutcome, Effect, Event, Stored, Victim};
use news::News;
use strangers::Strangers;

/// A pod that wants a machine from us.
#[derive(Debug)]
struct Pending {
    info: Arc<PodInfo>,
    scheduler: Arc<str>,
    /// `PodScheduled` as it is written.
    condition: Option<Condition>,
    nominated: String,
    /// The explanation last sent, which the watch may not have brought back yet.
    told: Option<Arc<str>>,
    since_ms: u64,
    /// No machine is kept for it before.
    keep_after_ms: u64,
}

/// Room held for a pod until it fits.
#[derive(Debug)]
struct Nomination {
    hold: Assumed,
    waits: Waits,
}

/// For whom or what room is held, and how long.
#[derive(Debug, Default)]
struct Waits {
    /// Those that make way for it.
    victims: BTreeSet<Arc<str>>,
    /// Nobody makes way: it waits for the machine, or for its volumes, until then.
    until_ms: Option<u64>,
    /// Only its volumes are missing.
    for_volumes: bool,
}

impl Nomination {
    fn of_victims(hold: Assumed, victims: BTreeSet<Arc<str>>) -> Self {
        Nomination { hold, waits: Waits { victims, ..Waits::default() } }
    }

    /// For what ends there by itself.
    fn waits_for_machine(&self) -> bool {
        self.waits.until_ms.is_some() && !self.waits.for_volumes
    }
}

#[derive(Debug)]
pub struct Engine {
    schedulers: BTreeSet<Arc<str>>,
    snapshot: Snapshot,
    queue: Queue,
    classes: Classes,
    budgets: BTreeMap<(String, String), Budget>,
    pending: HashMap<Arc<str>, Pending>,
    lanes: BTreeMap<Machine, Lane>,
    /// Machines whose lanes a gang has left.
    freed: BTreeSet<Machine>,
    flights: BTreeMap<u64, Flight>,
    flown: u64,
    gangs: Gangs,
    /// Pods whose machine was decided and that are not in the store yet.
    deciding: HashMap<Arc<str>, Machine>,
    /// Pods that would have been refused only because news is on its way.
    stalled: BTreeSet<Arc<str>>,
    nominated: BTreeMap<Arc<str>, Nomination>,
    news: News,
    sampled_ms: u64,
    reviews: BTreeMap<(String, String), Arc<PlacementReview>>,
    strangers: Strangers,
    /// What a template's priority is, as admission would say it of a pod.
    priorities: BTreeMap<String, PriorityClass>,
    scratch: Scratch,
}

impl Engine {
    pub fn new(scheduler_name: &str) -> Self {
        Engine::with_profiles(HashMap::from([(scheduler_name.to_owned(), Profile::default())]))
    }

    /// Pods that name one of these are ours, and are placed as its profile says.
    pub fn with_profiles(profiles: HashMap<String, Profile>) -> Self {
        Engine {
            schedulers: profiles.keys().map(|name| name.as_str().into()).collect(),
            snapshot: Snapshot::default(),
            queue: Queue::default(),
            classes: Classes::new(profiles),
            budgets: BTreeMap::new(),
            pending: HashMap::new(),
            lanes: BTreeMap::new(),
            freed: BTreeSet::new(),
            flights: BTreeMap::new(),
            flown: 0,
            gangs: Gangs::default(),
            deciding: HashMap::new(),
            stalled: BTreeSet::new(),
            nominated: BTreeMap::new(),
            news: News::default(),
            sampled_ms: 0,
            reviews: BTreeMap::new(),
            strangers: Strangers::default(),
            priorities: BTreeMap::new(),
            scratch: Scratch::default(),
        }
    }

    /// Takes one event in and says what to do.
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Node(node) => self.node(&node, &mut effects),
            Event::NodeGone(name) => self.node_gone(&name),
            Event::Allocation(allocation) => self.allocation(&allocation, &mut effects),
            Event::AllocationGone(name) => self.allocation_gone(&name),
            Event::Pod(pod) => {
                self.strangers.pod(&pod, &self.schedulers);
                self.pod(&pod, now_ms, &mut effects);
            }
            Event::PodGone(uid) => {
                self.strangers.gone(&uid);
                self.pod_gone(&uid);
            }
            Event::Class(class) => self.class(&class),
            Event::ClassGone(name) => self.class_gone(&name),
            Event::Namespace(namespace) => self.namespace(&namespace),
            Event::NamespaceGone(name) => self.snapshot.namespace_deleted(&name),
            Event::Budget(budget) => self.budget(&budget),
            Event::BudgetGone(name) => drop(self.budgets.remove(&name)),
            Event::Group(group) => self.group(&group),
            Event::GroupGone(name) => self.group_gone(&name),
            Event::Lendable(capacity) => self.lendable(&capacity, &mut effects),
            Event::LendableGone(last) => self.lendable_gone(&last, &mut effects),
            Event::Review(review) => self.review(&review),
            Event::ReviewGone(name) => drop(self.reviews.remove(&name)),
            Event::AllNodes(nodes) => self.all_nodes(&nodes, &mut effects),
            Event::AllAllocations(all) => self.all_allocations(&all, &mut effects),
            Event::AllPods(pods) => {
                self.strangers.all(&pods, &self.schedulers);
                self.all_pods(&pods, now_ms, &mut effects);
            }
            Event::AllClasses(all) => self.all_classes(&all),
            Event::AllNamespaces(all) => self.all_namespaces(&all),
            Event::AllBudgets(all) => self.all_budgets(&all),
            Event::AllGroups(all) => self.all_groups(&all),
            Event::AllLendable(all) => self.all_lendable(&all, &mut effects),
            Event::AllReviews(all) => self.all_reviews(&all),
            Event::AllocationUnread(node) => effects.push(Effect::ReadAllocation(node)),
            Event::Reached(watch, revision) => self.reached(watch, revision, &mut effects),
            Event::Bind { uid, outcome } => self.bind_ended(&uid, outcome, now_ms, &mut effects),
            Event::ExplainFailed(uid) => {
                if let Some(pending) = self.pending.get_mut(&*uid) {
                    pending.told = None;
                }
            }
            Event::Storage(stored) => self.stored(&stored),
            Event::VolumesUnwritten(uid) => self.volumes_unwritten(&uid, now_ms),
            Event::EvictFailed(uid) => self.stays(&uid, now_ms),
            Event::Decide { seed, most } => return self.decide(now_ms, seed, most, &Inline),
        }
        self.launch_freed(&mut effects);
        effects
    }

    /// Whether `Decide` has something to do now.
    pub fn has_ready(&self) -> bool {
        (self.queue.has_ready() && !self.is_full())
            || !self.reviews.is_empty()
            || self.gangs.has_news()
            || (!self.news.is_empty() && !self.queue.sleeping().is_empty())
    }

    /// When `Decide` will have something to do without any other event.
    pub fn next_due_ms(&self) -> Option<u64> {
        let of_queue = self.queue.next_due_ms().filter(|_| !self.is_full());
        [of_queue, self.gangs.next_due_ms()].into_iter().flatten().min()
    }

    /// What somebody who decides nothing has heard and will not use.
    pub fn stand_by(&mut self) {
        if self.queue.sleeping().is_empty() {
            self.news = News::default();
        }
        self.gangs.forget_news();
    }

    /// Pods without a machine.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    pub fn depths(&self) -> Depths {
        self.queue.depths()
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validate;
