//! The pods that fit nowhere, by class: what they wait for, and what was said of them. Pods of one class wait for the same, so
//! they are woken a few at a time; each that finds a place wakes others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::class::Class;
use crate::plugins::{Reason, Wake};
use crate::schedule::Unschedulable;

/// Pods of one class that are woken at once.
const FEW: usize = 16;

/// What was found for pods of a class.
#[derive(Clone, Debug)]
pub struct Found {
    pub class: Arc<Class>,
    pub none: Arc<Unschedulable>,
    pub message: Arc<str>,
}

/// Pods of a class, by age.
#[derive(Debug)]
pub struct Sleepers {
    pub class: Arc<Class>,
    pub none: Arc<Unschedulable>,
    pub message: Arc<str>,
    /// Only what happens on a machine can change the answer about it.
    pub local: bool,
    /// When that was found; it is found again after something that could help, and after a while.
    pub found_ms: u64,
    pub stale: bool,
    /// Nothing could be ended for them when that was last asked.
    pub hopeless: bool,
    pods: BTreeMap<(i64, Arc<str>), ()>,
}

impl Sleepers {
    pub fn wake_on(&self) -> Wake {
        self.none.wake_on
    }
}

#[derive(Debug, Default)]
pub struct Sleeping {
    classes: HashMap<u64, Sleepers>,
    class_of: HashMap<Arc<str>, (u64, i64)>,
}

impl Sleeping {
    pub fn len(&self) -> usize {
        self.class_of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.class_of.is_empty()
    }

    pub fn get(&self, class: u64) -> Option<&Sleepers> {
        self.classes.get(&class)
    }

    pub fn get_mut(&mut self, class: u64) -> Option<&mut Sleepers> {
        self.classes.get_mut(&class)
    }

    /// What was found for the class just now.
    pub fn found(&mut self, found: Found, now_ms: u64) {
        let Found { class, none, message } = found;
        // What happens on one machine may help a member of a gang, and that another one.
        let local = class.spec.gang.is_none() && !none.reasons.keys().any(Reason::spans_machines);
        let pods = self.classes.remove(&class.id).map(|known| known.pods).unwrap_or_default();
        let id = class.id;
        let (found_ms, stale, hopeless) = (now_ms, false, false);
        self.classes.insert(id, Sleepers { class, none, message, local, found_ms, stale, hopeless, pods });
    }

    /// The pod sleeps with its class, of which something was found.
    pub fn insert(&mut self, class: u64, created_us: i64, uid: Arc<str>) {
        if let Some(sleepers) = self.classes.get_mut(&class) {
            sleepers.pods.insert((created_us, uid.clone()), ());
            self.class_of.insert(uid, (class, created_us));
        }
    }

    pub fn remove(&mut self, uid: &Arc<str>) {
        let Some((class, created_us)) = self.class_of.remove(uid) else { return };
        if let Some(sleepers) = self.classes.get_mut(&class) {
            sleepers.pods.remove(&(created_us, uid.clone()));
            if sleepers.pods.is_empty() {
                self.classes.remove(&class);
            }
        }
    }

    /// A pod that sleeps is as old as that now.
    pub fn set_age(&mut self, uid: &Arc<str>, created_us: i64) {
        let Some((class, known_us)) = self.class_of.get_mut(uid) else { return };
        if let Some(sleepers) = self.classes.get_mut(class) {
            sleepers.pods.remove(&(*known_us, uid.clone()));
            sleepers.pods.insert((created_us, uid.clone()), ());
            *known_us = created_us;
        }
    }

    pub fn class_of(&self, uid: &str) -> Option<&Sleepers> {
        self.classes.get(&self.class_of.get(uid)?.0)
    }

    /// The oldest few of a class.
    pub fn front(&self, class: u64) -> Vec<Arc<str>> {
        let pods = self.classes.get(&class).map(|sleepers| &sleepers.pods);
        pods.into_iter().flatten().take(FEW).map(|((_, uid), ())| uid.clone()).collect()
    }

    pub fn classes(&self) -> impl Iterator<Item = &Sleepers> {
        self.classes.values()
    }

    pub fn classes_mut(&mut self) -> impl Iterator<Item = &mut Sleepers> {
        self.classes.values_mut()
    }
}
