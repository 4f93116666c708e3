//! The pace of a rolling update over machines: which old pods go now, and where a new pod may come beside an old one. Keeps
//! `maxUnavailable` and `maxSurge`. Never decides which machines run pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;

use super::placement::Place;
use super::types::DaemonSet;
use crate::deployment::resolve;
use crate::objects::Pod;

/// A machine and the set's pods on it, each list oldest first.
#[derive(Clone, Debug)]
pub struct OnNode {
    pub place: Place,
    /// Pods of the current revision.
    pub new: Vec<Arc<Pod>>,
    pub old: Vec<Arc<Pod>>,
    pub finished: Vec<Arc<Pod>>,
    /// How many are told to go.
    pub going: usize,
}

impl Default for OnNode {
    fn default() -> Self {
        let place = Place { runs: false, keeps: false };
        OnNode { place, new: Vec::new(), old: Vec::new(), finished: Vec::new(), going: 0 }
    }
}

impl OnNode {
    /// No pod at all: only then is one made.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty() && self.finished.is_empty() && self.going == 0
    }

    /// Pods that no update asks for: all on a machine that keeps none, and doubles.
    pub fn surplus(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let skip = usize::from(self.place.keeps);
        self.new.iter().skip(skip).chain(self.old.iter().skip(skip))
    }
}

/// What an update does now.
#[derive(Debug, Default)]
pub struct Update {
    pub replace: Vec<Arc<Pod>>,
    pub surge_on: Vec<String>,
}

pub fn plan(set: &DaemonSet, nodes: &BTreeMap<String, OnNode>, now: Timestamp) -> Update {
    if set.spec.update_strategy.kind.as_deref() == Some("OnDelete") {
        return Update::default();
    }
    let rolling = &set.spec.update_strategy.rolling_update;
    let desired = i32::try_from(nodes.values().filter(|on| on.place.runs).count()).unwrap_or(i32::MAX);
    let number =
        |value: Option<&serde_json::Value>, default| value.map_or(default, |v| resolve(Some(v), desired, true));
    let surge = number(rolling.max_surge.as_ref(), 0);
    let unavailable = number(rolling.max_unavailable.as_ref(), i32::from(surge == 0));
    let available = |pod: &Arc<Pod>| pod.is_available(set.spec.min_ready_seconds, now);
    if surge > 0 { surging(nodes, surge, available) } else { replacing(nodes, unavailable.max(1), available) }
}

/// Old pods go, at most `limit` machines being without an available one.
fn replacing(nodes: &BTreeMap<String, OnNode>, limit: i32, available: impl Fn(&Arc<Pod>) -> bool) -> Update {
    let (mut update, mut down, mut candidates) = (Update::default(), 0, Vec::new());
    for on in nodes.values().filter(|on| on.place.keeps) {
        match (on.new.first(), on.old.first()) {
            (Some(new), _) => {
                down += i32::from(!available(new));
                // Both are there after an update that surged: the old one is not needed.
                update.replace.extend(on.old.first().cloned());
            }
            // An old one that does not serve is replaced whatever the limit: nothing is lost.
            (None, Some(old)) if !available(old) => {
                down += 1;
                update.replace.push(old.clone());
            }
            (None, Some(old)) => candidates.push(old.clone()),
            (None, None) => down += i32::from(on.place.runs),
        }
    }
    let budget = usize::try_from(limit - down).unwrap_or(0);
    update.replace.extend(candidates.into_iter().take(budget));
    update
}

/// New pods come beside old ones on at most `limit` machines; an old one goes once the new one is available.
fn surging(nodes: &BTreeMap<String, OnNode>, limit: i32, available: impl Fn(&Arc<Pod>) -> bool) -> Update {
    let (mut update, mut surged, mut candidates) = (Update::default(), 0, Vec::new());
    for (name, on) in nodes.iter().filter(|(_, on)| on.place.keeps) {
        match (on.new.first(), on.old.first()) {
            (Some(new), Some(old)) if available(new) => update.replace.push(old.clone()),
            (Some(_), Some(_)) => surged += 1,
            (None, Some(_)) if !on.place.runs => {}
            (None, Some(old)) if !available(old) => update.surge_on.push(name.clone()),
            (None, Some(_)) => candidates.push(name.clone()),
            (_, None) => {}
        }
    }
    let budget = usize::try_from(limit - surged).unwrap_or(0);
    update.surge_on.extend(candidates.into_iter().take(budget));
    update
}
