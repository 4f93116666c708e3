//! What a loop remembers of its own writes until it sees them, so that it never acts twice on one cause, and why its last
//! attempt failed. All of it can be lost: after a restart the copies are complete before the first decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::{Object, Uid};

use crate::objects::Pod;

/// Per key.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Why the last plan was not carried out. Empty after one that was.
    pub failure: Option<Failure>,
    /// The newest version of each kind that this loop wrote for this key.
    pub(super) written: BTreeMap<&'static str, (&'static Kind, u64)>,
    /// Pods whose deletion the server accepted but the copy does not show yet.
    deleting: BTreeMap<Uid, (String, String)>,
    /// When (boot time) a plan with writes was last carried out.
    pub wrote_at_ms: Option<u64>,
}

/// A refused write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The kind's plural.
    pub kind: &'static str,
    pub name: String,
    /// A create that met an object of the same name.
    pub already_exists: bool,
    pub message: String,
}

impl Memory {
    pub(super) fn wrote(&mut self, kind: &'static Kind, revision: u64) {
        let entry = self.written.entry(kind.plural).or_insert((kind, revision));
        entry.1 = entry.1.max(revision);
    }

    pub(super) fn deleted(&mut self, uid: Uid, namespace: &str, name: &str) {
        self.deleting.insert(uid, (namespace.to_owned(), name.to_owned()));
    }

    /// Forgets deletions that the copy shows by now.
    pub(super) fn settle(&mut self, shown: impl Fn(&str, &str) -> Option<Arc<Pod>>) {
        self.deleting.retain(|uid, (namespace, name)| {
            shown(namespace, name).is_some_and(|pod| pod.uid() == uid && !pod.is_terminating())
        });
    }

    /// The uids of pods whose deletion was accepted but is not seen yet.
    pub fn deleting(&self) -> BTreeSet<String> {
        self.deleting.keys().map(Uid::to_string).collect()
    }

    /// Without the pods that are as good as deleted.
    pub fn remaining(&self, pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        if self.deleting.is_empty() {
            return pods;
        }
        pods.into_iter().filter(|pod| !self.deleting.contains_key(pod.uid())).collect()
    }
}
