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

/// Competes for the lease `ns/name` until `cancel`; while this process holds it, `task` runs with a token that is
/// cancelled when the lease is lost or given up. Returns once the task has ended and the lease is released.
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
        while cancel.run_until_cancelled(self.acquire()).await.is_some() {
            tracing::info!(lease = self.name, identity = self.election.identity(), "leading");
            let leading = cancel.child_token();
            let work = task(leading.clone());
            tokio::pin!(work);
            let ended = tokio::select! {
                () = &mut work => true,
                () = self.renew(&leading) => false,
            };
            leading.cancel();
            if !ended {
                tracing::warn!(lease = self.name, "no longer leading");
                work.await;
            }
            // Others wait for the lease to run out if this does not get through.
            drop(tokio::time::timeout(Duration::from_secs(5), self.release()).await);
            if ended && cancel.is_cancelled() {
                return;
            }
        }
    }

    /// Until this process holds the lease. It looks again no later than when the holder's time is up.
    async fn acquire(&mut self) {
        while !self.attempt().await {
            let retry = Duration::from_millis(self.election.retry_ms());
            let next = jittered(retry, retry / 5, entropy());
            let free = self.election.free_in_ms(self.clock.boottime_ms()).map(Duration::from_millis);
            tokio::time::sleep(free.map_or(next, |free| free.min(next))).await;
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
            let tried = tokio::time::timeout(Duration::from_millis(left_ms), self.attempt()).await;
            if tried.is_ok() && self.election.is_lost() {
                return;
            }
        }
    }

    /// One look at the lease and, where it is free or ours, one write. True when it is ours now.
    async fn attempt(&mut self) -> bool {
        match self.try_attempt().await {
            Ok(held) => held,
            Err(error) if error.is_conflict() || error.is_already_exists() => false,
            Err(error) => {
                tracing::warn!(lease = self.name, error = error.chain(), "the lease cannot be reached");
                false
            }
        }
    }

    async fn try_attempt(&mut self) -> Result<bool, ApiError> {
        let seen = match self.client.get::<Lease>(&kinds::LEASE, &self.ns, &self.name).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        // What counts is when the renewal was sent, not when its answer came.
        let (sent_ms, now) = (self.clock.boottime_ms(), self.clock.now());
        match self.election.decide(seen.as_ref(), sent_ms, now) {
            Action::Wait => Ok(false),
            Action::Write(spec) => {
                let mut metadata = json!({"name": self.name, "namespace": self.ns});
                if let Some(lease) = &seen {
                    metadata["resourceVersion"] = json!(lease.metadata.resource_version);
                }
                let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
                    "spec": spec});
                let written: Lease = match &seen {
                    Some(_) => self.client.update(&kinds::LEASE, &self.ns, &self.name, &body).await?,
                    None => self.client.create(&kinds::LEASE, &self.ns, &body).await?,
                };
                self.election.written(&written, sent_ms);
                Ok(true)
            }
        }
    }

    /// Gives the lease back, so that the next need not wait for it to run out.
    async fn release(&mut self) {
        if !self.election.give_up() {
            return;
        }
        let patch = |version: &str| {
            json!({"metadata": {"resourceVersion": version},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
        };
        let Ok(lease) = self.client.get::<Lease>(&kinds::LEASE, &self.ns, &self.name).await else { return };
        if lease.spec.holder_identity.as_deref() != Some(self.election.identity()) {
            return;
        }
        let patch = crate::Patch::Merge(patch(&lease.metadata.resource_version));
        let result = self.client.patch::<Lease>(&kinds::LEASE, &self.ns, &self.name, patch, None).await;
        if let Err(error) = result {
            tracing::debug!(lease = self.name, error = error.chain(), "the lease runs out by itself");
        }
    }
}

#[cfg(test)]
mod tests;
