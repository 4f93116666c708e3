//! Runs a task in at most one process: the one that holds a Lease. The holder cancels its own work before others may
//! take over. Never fences what the task did outside of the API: writes must be conditional anyway.

mod election;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::backoff::{entropy, jittered};
use crate::client::Client;
use crate::error::ApiError;
pub use election::Timing;
use election::{Action, Election, Lease};

/// How long a write of the lease is still listened for after the end was asked for.
const LAST_ANSWER: Duration = Duration::from_secs(2);
/// How long giving the lease back may take.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// The least that work gets to end, when somebody else holds the lease already.
const LEAST_REST: Duration = Duration::from_millis(500);

/// Competes for the lease `ns/name` until `cancel`; while this process holds it, `task` runs with a token that is
/// cancelled when the lease is lost or given up. A task that has not ended when others may take the lease is dropped, so what it
/// starts must end with it. Returns once the task has ended and the lease is released.
pub async fn run<F, Fut>(
    client: Client,
    (ns, name): (&str, &str),
    identity: &str,
    timing: Timing,
    cancel: CancellationToken,
    task: F,
) where
    F: FnMut(CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let elector = Elector {
        client,
        ns: ns.to_owned(),
        name: name.to_owned(),
        election: Election::new(identity, timing),
        clock: Arc::new(SystemClock),
    };
    elector.run(cancel, task).await;
}

struct Elector {
    client: Client,
    ns: String,
    name: String,
    election: Election,
    clock: Arc<dyn Clock>,
}

impl Elector {
    async fn run<F, Fut>(mut self, cancel: CancellationToken, mut task: F)
    where
        F: FnMut(CancellationToken) -> Fut,
        Fut: Future<Output = ()>,
    {
        while self.acquire(&cancel).await {
            tracing::info!(lease = self.name, identity = self.election.identity(), "leading");
            let leading = cancel.child_token();
            self.lead(&leading, task(leading.clone())).await;
            self.give_back().await;
        }
        self.give_back().await;
    }

    /// Until this process holds the lease, or is cancelled: then false. It looks again no later than when the holder's time
    /// is up.
    async fn acquire(&mut self, cancel: &CancellationToken) -> bool {
        // A lease whose writing took longer than it can be counted on is not held.
        while !(self.attempt(cancel).await && self.election.holds_for_ms(self.clock.boottime_ms()) > 0) {
            let retry = Duration::from_millis(self.election.retry_ms());
            let next = jittered(retry, retry / 5, entropy());
            let free = self.election.free_in_ms(self.clock.boottime_ms()).map(Duration::from_millis);
            let wait = tokio::time::sleep(free.map_or(next, |free| free.min(next)));
            if cancel.run_until_cancelled(wait).await.is_none() {
                return false;
            }
        }
        !cancel.is_cancelled()
    }

    /// Works for as long as the lease can be counted on. What is under way then may end while nobody else may begin; what
    /// takes longer is dropped.
    async fn lead(&mut self, leading: &CancellationToken, work: impl Future<Output = ()>) {
        let mut work = std::pin::pin!(work);
        let ended = tokio::select! {
            () = &mut work => true,
            () = self.renew(leading) => false,
        };
        leading.cancel();
        if ended {
            return;
        }
        tracing::warn!(lease = self.name, "no longer leading");
        let rest = Duration::from_millis(self.election.rest_ms(self.clock.boottime_ms())).max(LEAST_REST);
        if tokio::time::timeout(rest, work).await.is_err() {
            tracing::error!(lease = self.name, "what was under way outlasts the lease and is dropped");
        }
    }

    /// Returns once the lease can no longer be counted on.
    async fn renew(&mut self, leading: &CancellationToken) {
        while self.election.holds_for_ms(self.clock.boottime_ms()) > 0 {
            let left_ms = self.election.holds_for_ms(self.clock.boottime_ms());
            tokio::select! {
                () = leading.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(self.election.retry_ms().min(left_ms))) => {}
            }
            let left_ms = self.election.holds_for_ms(self.clock.boottime_ms());
            // An attempt that hangs must not outlast the lease.
            let tried = tokio::time::timeout(Duration::from_millis(left_ms), self.attempt(leading)).await;
            if tried.is_ok() && self.election.is_lost() {
                return;
            }
        }
    }

    /// One look at the lease and, where it is free or ours, one write. True when it is ours now.
    async fn attempt(&mut self, cancel: &CancellationToken) -> bool {
        match self.try_attempt(cancel).await {
            Ok(held) => held,
            Err(error) if error.is_conflict() || error.is_already_exists() => false,
            Err(error) => {
                tracing::warn!(lease = self.name, error = error.chain(), "the lease cannot be reached");
                false
            }
        }
    }

    async fn try_attempt(&mut self, cancel: &CancellationToken) -> Result<bool, ApiError> {
        let look = self.client.get::<Lease>(&kinds::LEASE, &self.ns, &self.name);
        let seen = match cancel.run_until_cancelled(look).await {
            None => return Ok(false),
            Some(Ok(lease)) => Some(lease),
            Some(Err(error)) if error.is_not_found() => None,
            Some(Err(error)) => return Err(error),
        };
        // What counts is when the renewal was sent, not when its answer came.
        let (sent_ms, now) = (self.clock.boottime_ms(), self.clock.now());
        let Action::Write(spec) = self.election.decide(seen.as_ref(), sent_ms, now) else { return Ok(false) };
        let mut metadata = json!({"name": self.name, "namespace": self.ns});
        if let Some(lease) = &seen {
            metadata["resourceVersion"] = json!(lease.metadata.resource_version);
        }
        let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
        self.election.asks();
        let write = async {
            match &seen {
                Some(_) => self.client.update::<Lease>(&kinds::LEASE, &self.ns, &self.name, &body).await,
                None => self.client.create::<Lease>(&kinds::LEASE, &self.ns, &body).await,
            }
        };
        // Only its answer tells whether there is something to give back, so it is waited for a little.
        let too_late = async {
            cancel.cancelled().await;
            tokio::time::sleep(LAST_ANSWER).await;
        };
        let answer = tokio::select! {
            answer = write => answer,
            () = too_late => return Ok(false),
        };
        match answer {
            Ok(written) => {
                self.election.written(&written, sent_ms);
                Ok(true)
            }
            Err(error) => {
                if !error.is_unknown() {
                    self.election.refused();
                }
                Err(error)
            }
        }
    }

    /// Gives back what is held, or may be, so that the next need not wait for it to run out.
    async fn give_back(&mut self) {
        if self.election.give_up() {
            // Others wait for the lease to run out if this does not get through.
            drop(tokio::time::timeout(GIVE_BACK, self.release()).await);
        }
    }

    async fn release(&self) {
        loop {
            let Ok(lease) = self.client.get::<Lease>(&kinds::LEASE, &self.ns, &self.name).await else { return };
            if lease.spec.holder_identity.as_deref() != Some(self.election.identity()) {
                return;
            }
            let patch = json!({"metadata": {"resourceVersion": lease.metadata.resource_version},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            let patch = crate::Patch::Merge(patch);
            match self.client.patch::<Lease>(&kinds::LEASE, &self.ns, &self.name, patch, None).await {
                // A renewal that was under way came through meanwhile.
                Err(error) if error.is_conflict() => {}
                Err(error) => {
                    tracing::debug!(lease = self.name, error = error.chain(), "the lease runs out by itself");
                    return;
                }
                Ok(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
