//! Equivalence classes: pods that every rule treats alike are prepared once. Two pods are of one class when they share their
//! spec, meet their own rules in the same way, and are spoken of by the same rules of placed pods. Decides nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::plugins::{Check, PLUGINS, Preparing, Score, Uses};
use crate::pod::{Band, Importance, PodInfo, Spec};
use crate::snapshot::{Ask, HolderId, Snapshot, Tier};

/// Classes kept; the least recently used go first.
const MOST: usize = 4096;

/// How a scheduler's pods are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// What each plugin's score counts, where it is not as usual.
    pub weights: HashMap<String, i64>,
    /// A walk stops after so many machines that would do; `None`: max(500, 5 %).
    pub enough: Option<usize>,
}

/// A class of pods, prepared.
#[derive(Debug)]
pub struct Class {
    pub id: u64,
    pub spec: Arc<Spec>,
    pub band: Band,
    pub tier: Tier,
    pub ask: Ask,
    /// By their place in [`PLUGINS`].
    pub checks: Vec<(usize, Box<dyn Check>)>,
    /// With their weights.
    pub scores: Vec<(usize, i64, Box<dyn Score>)>,
    /// A walk stops after so many machines that would do.
    pub enough: Option<usize>,
    uses: Uses,
    was_let_go: AtomicBool,
}

impl Class {
    /// What it uses of the snapshot may be somebody else's by now: its checks mean nothing any more.
    pub fn was_let_go(&self) -> bool {
        self.was_let_go.load(Relaxed)
    }

    pub fn importance(&self) -> Importance {
        Importance::of(self.band, self.spec.priority)
    }

    /// What the plugin of this name prefers for the class.
    pub fn score(&self, plugin: &str) -> Option<&dyn Score> {
        self.scores.iter().find(|(at, _, _)| PLUGINS[*at].name == plugin).map(|(_, _, score)| &**score)
    }
}

/// Whether two pods of a spec look alike to the rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    spec: usize,
    band: Band,
    scheduler: String,
    /// For each own rule, whether the pod meets it itself.
    own: Vec<bool>,
    /// Which rules of placed pods speak of it, by their serials: another rule may get the id of one that is gone.
    carried: Vec<u64>,
}

#[derive(Debug, Default)]
pub struct Classes {
    known: HashMap<Key, (Arc<Class>, u64)>,
    profiles: HashMap<String, Profile>,
    made: u64,
    /// Counts uses, to know which class was used last.
    clock: u64,
}

fn key(snapshot: &Snapshot, info: &PodInfo, scheduler: &str, carried: &[HolderId]) -> Key {
    let terms = info.affinity.iter().chain(&info.anti_affinity).chain(&info.preferences);
    let meets = terms.map(|term| snapshot.is_about(&term.rule, &info.tags));
    let spread = info.spread.iter().map(|rule| rule.selector.matches(&info.tags.labels));
    Key {
        spec: Arc::as_ptr(&info.spec).addr(),
        band: snapshot.band(&info.class),
        scheduler: scheduler.to_owned(),
        own: meets.chain(spread).collect(),
        carried: carried.iter().map(|id| snapshot.holder_serial(*id)).collect(),
    }
}

impl Classes {
    pub fn new(profiles: HashMap<String, Profile>) -> Self {
        Classes { profiles, ..Classes::default() }
    }

    /// The pod's class, prepared where it is new. `info` was adopted by the snapshot.
    pub fn of(&mut self, snapshot: &mut Snapshot, info: &PodInfo, scheduler: &str) -> Arc<Class> {
        let carried = snapshot.carried_about(info);
        let key = key(snapshot, info, scheduler, &carried);
        self.clock += 1;
        if let Some((class, used)) = self.known.get_mut(&key) {
            *used = self.clock;
            return class.clone();
        }
        if self.known.len() >= MOST {
            self.let_go(snapshot);
        }
        self.made += 1;
        let profile = self.profiles.get(scheduler);
        let class = Arc::new(prepare(snapshot, info, profile, self.made, &carried));
        self.known.insert(key, (class.clone(), self.clock));
        class
    }

    /// The half that was not used for longest.
    fn let_go(&mut self, snapshot: &mut Snapshot) {
        let mut uses: Vec<u64> = self.known.values().map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        let (_, oldest, _) = uses.select_nth_unstable(middle);
        let oldest = *oldest;
        self.known.retain(|_, (class, used)| {
            let keep = *used > oldest;
            if !keep {
                class.was_let_go.store(true, Relaxed);
                class.uses.views.iter().for_each(|view| snapshot.release_view(*view));
                class.uses.sets.iter().for_each(|set| snapshot.release_set(*set));
            }
            keep
        });
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

fn prepare(snapshot: &mut Snapshot, info: &PodInfo, profile: Option<&Profile>, id: u64, carried: &[HolderId]) -> Class {
    let band = snapshot.band(&info.class);
    let tier = Tier::of(band);
    let ask = Ask::read(&info.requests, |name| snapshot.resource_id(name));
    let mut uses = Uses::default();
    let mut preparing = Preparing { snapshot, info, ask: &ask, tier, carried, uses: &mut uses };
    let mut checks = Vec::new();
    let mut scores = Vec::new();
    for (at, plugin) in PLUGINS.iter().enumerate() {
        if let Some(check) = plugin.check.and_then(|check| check(&mut preparing)) {
            checks.push((at, check));
        }
        let usual = (plugin.weight)(band);
        let weight = profile.and_then(|p| p.weights.get(plugin.name)).copied().unwrap_or(usual);
        if weight == 0 {
            continue;
        }
        if let Some(score) = plugin.score.and_then(|score| score(&mut preparing)) {
            scores.push((at, weight, score));
        }
    }
    let enough = profile.and_then(|profile| profile.enough);
    Class {
        id,
        spec: info.spec.clone(),
        band,
        tier,
        ask,
        checks,
        scores,
        enough,
        uses,
        was_let_go: AtomicBool::new(false),
    }
}

#[cfg(test)]
mod tests;
