//! Where the members are, as far as this one knows: from its configuration at first, then from the group's own log.

use openraft::{BasicNode, Membership};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cheap to clone; clones share what they know.
#[derive(Clone, Default)]
pub struct Roster {
    addresses: Arc<Mutex<BTreeMap<u64, String>>>,
}

impl Roster {
    pub fn new(members: &BTreeMap<u64, String>) -> Self {
        Self { addresses: Arc::new(Mutex::new(members.clone())) }
    }

    pub fn learn(&self, id: u64, address: &str) {
        self.addresses.lock().insert(id, address.to_owned());
    }

    /// The log is always right about those it names. Others stay known: a member that is not told of its removal still
    /// has to be answered.
    pub fn follow(&self, membership: &Membership<u64, BasicNode>) {
        let mut addresses = self.addresses.lock();
        addresses.extend(membership.nodes().map(|(id, node)| (*id, node.addr.clone())));
    }

    pub fn all(&self) -> BTreeSet<u64> {
        self.addresses.lock().keys().copied().collect()
    }

    /// The highest number that was ever heard of here.
    pub fn newest(&self) -> u64 {
        self.addresses.lock().keys().next_back().copied().unwrap_or(0)
    }

    pub fn address(&self, id: u64) -> Option<String> {
        self.addresses.lock().get(&id).cloned()
    }
}
