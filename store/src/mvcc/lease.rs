//! Leases: which exist, how long they were asked for, and which keys go with them. When one runs out is the leader's
//! decision (`group::lessor`); here it is only granted and revoked.

use super::{Mvcc, chain};
use crate::api::{LeaseId, Revision, StoreError};
use crate::plant::{Plant, planted};
use bytes::Bytes;
use imbl::OrdSet;

/// One lease that was granted and not revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Seconds.
    pub ttl_s: i64,
    /// Which of the grants that this state has seen made it: what is known of a lease ends with it, also when its number is
    /// given again. Members count differently, so it is no part of what they agree on.
    pub grant: u64,
    pub keys: OrdSet<Bytes>,
}

impl Mvcc {
    pub(super) fn grant(&mut self, id: LeaseId, ttl_s: i64) -> Result<(), StoreError> {
        if self.leases.contains_key(&id) {
            return Err(StoreError::LeaseExists(id));
        }
        self.grants += 1;
        self.leases.insert(id, Lease { ttl_s, grant: self.grants, keys: OrdSet::new() });
        self.hash = chain::leased(self.hash, id, ttl_s);
        Ok(())
    }

    /// Ends a lease and deletes its keys, all in one revision.
    pub(super) fn revoke(&mut self, id: LeaseId) -> Result<(), StoreError> {
        let lease = self.leases.remove(&id).ok_or(StoreError::NoLease(id))?;
        self.hash = chain::leased(self.hash, id, 0);
        let revision = Revision(self.revision + 1);
        let left = usize::from(planted(Plant::HalfRevoked) && lease.keys.len() > 1);
        let changes: Vec<_> = lease.keys.iter().skip(left).filter_map(|key| self.delete(key, revision)).collect();
        if !changes.is_empty() {
            self.commit_changes(changes);
        }
        Ok(())
    }

    /// Moves a key from one lease to another.
    pub(super) fn attach(&mut self, key: &[u8], from: LeaseId, to: LeaseId) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.keys.insert(Bytes::copy_from_slice(key));
        }
    }

    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// Every lease, by number.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = (&LeaseId, &Lease)> {
        self.leases.iter()
    }
}
