//! The rules of holding a Lease: when it may be taken, and how long it may be counted on. Never does I/O.
//!
//! Others' renewals are judged by when *this* process saw them change, never by the times written in them: clocks of
//! two machines need not agree.

use gantry_apimachinery::meta::ObjectMeta;
use gantry_apimachinery::time::{MicroTime, Timestamp};
use serde::{Deserialize, Serialize};

/// How fast a lease changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Others may take a lease that was not renewed for this long.
    pub lease_s: u32,
    /// The holder stops counting on it after this long.
    pub renew_ms: u64,
    /// Between two attempts.
    pub retry_ms: u64,
}

impl Timing {
    /// As Kubernetes has it for its controllers.
    pub const USUAL: Timing = Timing { lease_s: 15, renew_ms: 10_000, retry_ms: 2_000 };
    /// For what must not stand still: taken over within 5 s, and kept over a store's election of 2 s.
    pub const FAST: Timing = Timing { lease_s: 4, renew_ms: 3_000, retry_ms: 500 };
}

/// What is read of `coordination.k8s.io/v1` Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<MicroTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<MicroTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Somebody else holds it.
    Wait,
    /// Write this, conditional on the version that was read.
    Write(Spec),
}

pub(super) struct Election {
    identity: String,
    timing: Timing,
    /// The last version seen, and when it was first seen here.
    observed: Option<(String, u64)>,
    /// When the last renewal that succeeded was sent.
    renewed_ms: Option<u64>,
    /// A write was sent and its outcome is not known: the lease may be ours.
    asked: bool,
    /// When somebody else's time is up, unless it is renewed before.
    free_at_ms: Option<u64>,
}

impl Election {
    pub fn new(identity: &str, timing: Timing) -> Self {
        Election {
            identity: identity.to_owned(),
            timing,
            observed: None,
            renewed_ms: None,
            asked: false,
            free_at_ms: None,
        }
    }

    pub fn retry_ms(&self) -> u64 {
        self.timing.retry_ms
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    pub fn decide(&mut self, seen: Option<&Lease>, now_ms: u64, now: Timestamp) -> Action {
        let renew_time = Some(MicroTime(now));
        let mut spec = Spec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.timing.lease_s),
            acquire_time: renew_time,
            renew_time,
            lease_transitions: Some(0),
        };
        let Some(lease) = seen else { return Action::Write(spec) };
        let version = &lease.metadata.resource_version;
        if self.observed.as_ref().is_none_or(|(known, _)| known != version) {
            self.observed = Some((version.clone(), now_ms));
        }
        let since_ms = self.observed.as_ref().map_or(now_ms, |(_, ms)| *ms);
        let holder = lease.spec.holder_identity.as_deref().unwrap_or("");
        if holder == self.identity {
            spec.acquire_time = lease.spec.acquire_time.or(renew_time);
            spec.lease_transitions = lease.spec.lease_transitions;
            return Action::Write(spec);
        }
        let lasts_ms = u64::from(lease.spec.lease_duration_seconds.unwrap_or(self.timing.lease_s)) * 1000;
        self.free_at_ms = Some(since_ms.saturating_add(lasts_ms));
        if !holder.is_empty() && now_ms < since_ms + lasts_ms {
            // Whatever was held here before is somebody else's now, and whatever was asked for comes too late.
            self.renewed_ms = None;
            self.asked = false;
            return Action::Wait;
        }
        spec.lease_transitions = Some(lease.spec.lease_transitions.unwrap_or(0).saturating_add(1));
        Action::Write(spec)
    }

    /// A write is sent; until `written` or `refused` it is not known what became of it.
    pub fn asks(&mut self) {
        self.asked = true;
    }

    pub fn refused(&mut self) {
        self.asked = false;
    }

    pub fn written(&mut self, lease: &Lease, sent_ms: u64) {
        self.observed = Some((lease.metadata.resource_version.clone(), sent_ms));
        self.renewed_ms = Some(sent_ms);
        self.asked = false;
    }

    /// How much longer somebody else may hold it without a renewal; `None` when that time is over or not known.
    pub fn free_in_ms(&self, now_ms: u64) -> Option<u64> {
        self.free_at_ms.and_then(|at| at.checked_sub(now_ms)).filter(|left| *left > 0)
    }

    /// Somebody else was seen to hold it.
    pub fn is_lost(&self) -> bool {
        self.renewed_ms.is_none()
    }

    /// How much longer the lease may be counted on.
    pub fn holds_for_ms(&self, now_ms: u64) -> u64 {
        self.renewed_ms.map_or(0, |sent| (sent + self.timing.renew_ms).saturating_sub(now_ms))
    }

    /// How much longer nobody else may take the lease: some seconds more than it is counted on.
    pub fn rest_ms(&self, now_ms: u64) -> u64 {
        let lasts_ms = u64::from(self.timing.lease_s) * 1000;
        self.renewed_ms.map_or(0, |sent| (sent + lasts_ms).saturating_sub(now_ms))
    }

    /// Returns whether there is, or may be, something to give back.
    pub fn give_up(&mut self) -> bool {
        let asked = std::mem::take(&mut self.asked);
        self.renewed_ms.take().is_some() || asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta { resource_version: version.into(), ..ObjectMeta::default() },
            spec: Spec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(15),
                lease_transitions: Some(4),
                acquire_time: Some(MicroTime(Timestamp::from_secs(1))),
                ..Spec::default()
            },
        }
    }

    fn wrote(action: Action) -> Spec {
        match action {
            Action::Write(spec) => spec,
            Action::Wait => panic!("waits"),
        }
    }

    #[test]
    fn a_lease_that_does_not_exist_or_is_free_is_taken_at_once() {
        let mut election = Election::new("me", Timing::USUAL);
        let now = Timestamp::from_secs(9);
        assert_eq!(wrote(election.decide(None, 0, now)).lease_transitions, Some(0));
        let spec = wrote(election.decide(Some(&lease("", "1")), 0, now));
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("me"), Some(5)));
    }

    #[test]
    fn another_holder_is_waited_for_from_when_its_renewal_was_seen() {
        let mut election = Election::new("me", Timing::USUAL);
        let now = Timestamp::from_secs(9);
        assert_eq!(election.decide(Some(&lease("other", "1")), 1_000, now), Action::Wait);
        assert_eq!(election.decide(Some(&lease("other", "2")), 15_500, now), Action::Wait, "it was renewed");
        assert_eq!(election.decide(Some(&lease("other", "2")), 30_499, now), Action::Wait);
        assert_eq!(wrote(election.decide(Some(&lease("other", "2")), 30_500, now)).lease_transitions, Some(5));
    }

    #[test]
    fn a_renewal_keeps_what_is_old_and_counts_from_when_it_was_sent() {
        let mut election = Election::new("me", Timing::USUAL);
        let spec = wrote(election.decide(Some(&lease("me", "3")), 100, Timestamp::from_secs(9)));
        assert_eq!(spec.acquire_time, Some(MicroTime(Timestamp::from_secs(1))));
        assert_eq!(spec.lease_transitions, Some(4));
        election.written(&lease("me", "4"), 100);
        assert_eq!((election.holds_for_ms(100), election.holds_for_ms(10_099)), (10_000, 1));
        assert_eq!((election.holds_for_ms(10_100), election.rest_ms(10_100)), (0, 5_000));
        assert_eq!((election.rest_ms(15_099), election.rest_ms(15_100)), (1, 0));
        assert_eq!(election.decide(Some(&lease("other", "5")), 200, Timestamp::from_secs(9)), Action::Wait);
        assert!(election.is_lost());
    }

    #[test]
    fn a_fast_lease_is_taken_over_within_five_seconds() {
        let Timing { lease_s, renew_ms, retry_ms } = Timing::FAST;
        // The last renewal is seen at the next look, which may be late by a fifth. The look after that is when it runs out.
        let seen_ms = retry_ms + retry_ms / 5;
        let mut election = Election::new("me", Timing::FAST);
        let mut last = lease("other", "1");
        last.spec.lease_duration_seconds = Some(lease_s);
        assert_eq!(election.decide(Some(&last), seen_ms, Timestamp::from_secs(9)), Action::Wait);
        let free_ms = seen_ms + election.free_in_ms(seen_ms).unwrap();
        assert!(free_ms <= 4_600, "{free_ms} ms leave 400 ms of the five seconds to the requests");
        assert_eq!(election.free_in_ms(free_ms - 1), Some(1));
        assert_eq!(election.free_in_ms(free_ms), None, "it is time to take it");
        assert_eq!(wrote(election.decide(Some(&last), free_ms, Timestamp::from_secs(9))).lease_transitions, Some(5));
        assert!(renew_ms < u64::from(lease_s) * 1000, "the holder stops before another one may begin");
        assert!(renew_ms - retry_ms >= 2_000, "an election of the store that takes 2 s costs no lease");
    }
}
