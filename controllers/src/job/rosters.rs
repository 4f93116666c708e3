//! The rosters of all jobs, in step with the copy of the pods. Decides which roster a pod is on: that of its owner's name and
//! uid, whether the job is there or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::meta::{Object, Uid};
use parking_lot::RwLock;

use super::roster::Roster;
use crate::edge::Key;
use crate::objects::Pod;

/// Whoever holds its lock must not read the copy of the pods: the copy's writer waits for it.
pub type Shared = Arc<RwLock<Roster>>;

/// By the job's name, then by the uid of the job that a pod names: a new job may have an old one's name.
#[derive(Default)]
pub struct Rosters(RwLock<BTreeMap<Key, BTreeMap<Uid, Shared>>>);

impl Rosters {
    /// Takes in one pod's state before and after a change.
    pub fn change(&self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, boot_ms: u64) {
        let (before, after) = (old.and_then(|pod| place(pod)), new.and_then(|pod| place(pod)));
        if let (Some(before), Some(after)) = (&before, &after)
            && before == after
        {
            return self.at(after, |roster| roster.change(old, new, boot_ms));
        }
        if let Some(before) = before {
            self.at(&before, |roster| roster.change(old, None, boot_ms));
        }
        if let Some(after) = after {
            self.at(&after, |roster| roster.change(None, new, boot_ms));
        }
    }

    fn at(&self, (key, uid): &(Key, Uid), change: impl FnOnce(&mut Roster)) {
        let found = self.0.read().get(key).and_then(|jobs| jobs.get(uid)).cloned();
        let shared = found
            .unwrap_or_else(|| self.0.write().entry(key.clone()).or_default().entry(uid.clone()).or_default().clone());
        let empty = {
            let mut roster = shared.write();
            change(&mut roster);
            roster.is_empty()
        };
        if empty {
            let mut all = self.0.write();
            if let Some(jobs) = all.get_mut(key) {
                jobs.remove(uid);
                if jobs.is_empty() {
                    all.remove(key);
                }
            }
        }
    }

    /// The roster of the job of this name and uid.
    pub fn of(&self, key: &Key, uid: &Uid) -> Shared {
        self.0.read().get(key).and_then(|jobs| jobs.get(uid)).cloned().unwrap_or_default()
    }

    /// The pods that earlier jobs of the key's name left behind: those that name another uid and are still held.
    pub fn left_behind(&self, key: &Key, job: Option<&Uid>) -> Vec<Arc<Pod>> {
        let all = self.0.read();
        let others = all.get(key).into_iter().flatten().filter(|(uid, _)| Some(*uid) != job);
        others.flat_map(|(_, roster)| roster.read().held().cloned().collect::<Vec<_>>()).collect()
    }
}

fn place(pod: &Pod) -> Option<(Key, Uid)> {
    let owner = pod.owner().filter(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch/"))?;
    Some((Key::new(pod.namespace(), &owner.name), owner.uid.clone()))
}
