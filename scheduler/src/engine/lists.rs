//! The small kinds: priority classes, namespaces, budgets, what may be lent, pod groups, reviews. One at a time, and all of them
//! at once where changes were lost; what is not among all of them is gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::meta::Object;

use super::{Effect, Engine};
use crate::api::{Amounts, BatchCapacity, Namespace, PlacementReview, PodDisruptionBudget, PodGroup, PriorityClass};
use crate::plugins::Wake;
use crate::pod::PodInfo;
use crate::preempt::Budget;

type Name = (String, String);

fn full_name<T: Object>(object: &T) -> Name {
    (object.meta().namespace.clone(), object.meta().name.clone())
}

fn missing<T: Object>(known: impl Iterator<Item = Name>, all: &[Arc<T>]) -> Vec<Name> {
    let present: BTreeSet<Name> = all.iter().map(|object| full_name(&**object)).collect();
    known.filter(|name| !present.contains(name)).collect()
}

impl Engine {
    pub(super) fn class(&mut self, class: &PriorityClass) {
        let label = class.metadata.labels.get("gantry.dev/band");
        if self.snapshot.class_applied(class.name(), label.map(String::as_str)) {
            self.rank_again(|info| &*info.class == class.name());
        }
        self.priorities.insert(class.name().to_owned(), class.clone());
    }

    pub(super) fn class_gone(&mut self, name: &str) {
        if self.snapshot.class_deleted(name) {
            self.rank_again(|info| &*info.class == name);
        }
        self.priorities.remove(name);
    }

    /// These pods' band or team is another one: who waits takes its place anew, and what is placed counts otherwise.
    fn rank_again(&mut self, which: impl Fn(&PodInfo) -> bool) {
        let Engine { pending, snapshot, queue, .. } = self;
        for pending in pending.values().filter(|pending| which(&pending.info)) {
            let (band, team) = (snapshot.band(&pending.info.class), snapshot.team(&pending.info.namespace));
            queue.put(pending.info.clone(), band, team);
        }
        self.news.everywhere(Wake::POD_PLACED.or(Wake::POD_GONE));
    }

    pub(super) fn all_classes(&mut self, all: &[Arc<PriorityClass>]) {
        let known = self.snapshot.classes().map(|name| (String::new(), name.to_owned()));
        for (_, gone) in missing(known, all) {
            self.class_gone(&gone);
        }
        all.iter().for_each(|class| self.class(class));
    }

    pub(super) fn namespace(&mut self, namespace: &Namespace) {
        if self.snapshot.namespace_applied(namespace.name(), &namespace.metadata.labels) {
            self.rank_again(|info| info.namespace == namespace.name());
        }
    }

    pub(super) fn all_namespaces(&mut self, all: &[Arc<Namespace>]) {
        let known = self.snapshot.namespaces().map(|name| (String::new(), name.to_owned()));
        for (_, gone) in missing(known, all) {
            self.snapshot.namespace_deleted(&gone);
        }
        all.iter().for_each(|namespace| self.namespace(namespace));
    }

    pub(super) fn budget(&mut self, budget: &PodDisruptionBudget) {
        let selector = budget.spec.selector.as_ref().and_then(|s| Selector::from_label_selector(s).ok());
        let name = full_name(budget);
        let selector = selector.unwrap_or_else(Selector::nothing);
        let allowed = budget.status.disruptions_allowed;
        self.budgets.insert(name.clone(), Budget { namespace: name.0, selector, allowed });
    }

    pub(super) fn all_budgets(&mut self, all: &[Arc<PodDisruptionBudget>]) {
        self.budgets.clear();
        all.iter().for_each(|budget| self.budget(budget));
    }

    pub(super) fn all_groups(&mut self, all: &[Arc<PodGroup>]) {
        for gone in missing(self.gangs.with_object(), all) {
            self.group_gone(&gone);
        }
        all.iter().for_each(|group| self.group(group));
    }

    pub(super) fn lendable(&mut self, capacity: &BatchCapacity, effects: &mut Vec<Effect>) {
        let (name, revision) = (capacity.name(), capacity.metadata.revision());
        self.lends(name, Some(&capacity.spec.lendable), revision, effects);
    }

    pub(super) fn lendable_gone(&mut self, last: &BatchCapacity, effects: &mut Vec<Effect>) {
        self.lends(last.name(), None, last.metadata.revision(), effects);
    }

    fn lends(&mut self, name: &str, lendable: Option<&Amounts>, revision: u64, effects: &mut Vec<Effect>) {
        let is_news = self.snapshot.lendable_applied(name, lendable, revision);
        let Some(machine) = self.snapshot.find(name) else { return };
        if is_news {
            self.news.on(Wake::MACHINE, machine);
        }
        // Its version may have waited for this.
        self.launch(machine, effects);
    }

    pub(super) fn all_lendable(&mut self, all: &[Arc<BatchCapacity>], effects: &mut Vec<Effect>) {
        let known = self.snapshot.lending().map(|name| (String::new(), name.to_owned()));
        for (_, gone) in missing(known, all) {
            self.lends(&gone, None, 0, effects);
        }
        all.iter().for_each(|capacity| self.lendable(capacity, effects));
    }

    pub(super) fn all_reviews(&mut self, all: &[Arc<PlacementReview>]) {
        self.reviews.clear();
        all.iter().for_each(|review| self.review(review));
    }
}
