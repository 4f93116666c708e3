//! When leases may end: by a revocation that somebody asked for, or once all of their time has passed since they were
//! granted or renewed last. Which keys go with them is the model's.

use crate::Violation;
use crate::order::Order;
use crate::record::{History, LeaseRequest, Operation, Outcome, Request};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Leases {
    of: BTreeMap<u64, Lease>,
}

#[derive(Default)]
struct Lease {
    ttl: u64,
    /// When the grant was acknowledged.
    granted: Option<u64>,
    /// The latest time at which a request was sent that gave it all of its time.
    renewed: u64,
    /// When revocations were sent that nobody refused, with the revision of those that were acknowledged.
    revoked: Vec<(u64, Option<u64>)>,
}

impl Lease {
    /// It cannot run out before.
    fn until(&self) -> u64 {
        self.renewed.saturating_add(self.ttl)
    }
}

impl Leases {
    /// Gathers what was asked of leases, and refuses answers that deny one that cannot have ended.
    pub fn gather(history: &History) -> Result<Self, Violation> {
        let mut leases = Self::default();
        for operation in &history.operations {
            if let Request::Lease(request) = operation.request {
                leases.note(operation, request);
            }
        }
        for (number, operation) in history.operations.iter().enumerate() {
            if let Request::Lease(request) = operation.request
                && operation.outcome == Outcome::NoLease
                && let Some(lease) = leases.of.get(&request.lease())
                && lease.granted.is_some_and(|granted| granted < operation.sent)
                && lease.until() > operation.ended
                && !lease.revoked.iter().any(|(sent, _)| *sent < operation.ended)
            {
                let (lease, until) = (request.lease(), lease.until());
                return Err(Violation::LeaseDenied { operation: number, lease, until });
            }
        }
        Ok(leases)
    }

    fn note(&mut self, operation: &Operation, request: LeaseRequest) {
        let lease = self.of.entry(request.lease()).or_default();
        let sent = operation.sent;
        match (request, &operation.outcome) {
            (LeaseRequest::Grant { ttl, .. }, outcome) => {
                lease.ttl = ttl;
                lease.renewed = lease.renewed.max(sent);
                lease.granted = matches!(outcome, Outcome::Done { .. }).then_some(operation.ended);
            }
            (LeaseRequest::Renew { .. }, Outcome::Renewed) => lease.renewed = lease.renewed.max(sent),
            (LeaseRequest::Revoke { .. }, Outcome::Done { revision, .. }) => {
                lease.revoked.push((sent, Some(*revision)))
            }
            (LeaseRequest::Revoke { .. }, Outcome::Unknown) => lease.revoked.push((sent, None)),
            (LeaseRequest::Renew { .. } | LeaseRequest::Revoke { .. }, _) => {}
        }
    }

    /// Whether anybody asked to revoke it, and was not refused.
    pub fn is_revoked(&self, number: u64) -> bool {
        self.of.get(&number).is_some_and(|lease| !lease.revoked.is_empty())
    }

    /// Why a lease cannot have ended with `revision`.
    pub fn ends(&self, number: u64, revision: u64, order: &Order) -> Result<(), Violation> {
        let seen = order.first_seen(revision);
        let unknown = Lease::default();
        let lease = self.of.get(&number).unwrap_or(&unknown);
        let revoked = lease.revoked.iter().any(|(sent, at)| match at {
            Some(at) => *at == revision,
            None => *sent < seen && order.seen_before(*sent) < revision,
        });
        if revoked || seen >= lease.until() {
            return Ok(());
        }
        Err(Violation::RanOutEarly { lease: number, revision, seen, until: lease.until() })
    }
}
