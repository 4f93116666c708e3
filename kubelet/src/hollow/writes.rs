//! The requests of a hollow fleet: one effect, one answer. Decides how an answer reads; never when to ask again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Uid;
use gantry_client::{ApiError, Client, DeleteOptions, Patch};
use gantry_rehearsal::{FleetProfile, Machine};
use serde::de::IgnoredAny;
use serde_json::json;

use super::fleet::{Event, Written};
use super::machine::{Renewal, Reported};
use super::{HollowClients, identity};
use crate::agent::{now, report};
use crate::api::objects::HeaderOnly;
use crate::api::{Pod, PodStatus};
use crate::node::heartbeat;

/// A renewal that takes longer is as good as failed, as in the agent.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Writer {
    pub clients: HollowClients,
    pub profile: Arc<FleetProfile>,
    /// Since when the machines are ready.
    pub since: gantry_apimachinery::time::Timestamp,
    /// The second in which a failure was told last: thousands may fail at once.
    pub told_s: AtomicU64,
}

impl Writer {
    fn failed(&self, what: &str, error: &ApiError) {
        let second = now().boot_ms / 1_000;
        if self.told_s.swap(second, Ordering::Relaxed) != second {
            tracing::warn!(error = %error.chain(), "{what} (at most one such line a second)");
        }
    }

    /// Makes the Node, or takes up the one that is there.
    pub async fn register(&self, at: u32, machine: Machine) -> Event {
        let node = identity::registration(machine, &self.profile, now().wall);
        let client = &self.clients.writes;
        let result = match client.create::<HeaderOnly>(&kinds::NODE, "", &node).await {
            Err(ApiError::AlreadyExists(_)) => self.take_up(client, machine).await,
            other => other,
        };
        let uid = result.map(|node| node.metadata.uid);
        let uid = uid.inspect_err(|error| self.failed("a machine could not be registered", error)).ok();
        Event::Registered { machine: at, uid }
    }

    async fn take_up(&self, client: &Client, machine: Machine) -> Result<HeaderOnly, ApiError> {
        let labels = Patch::Merge(identity::labels(machine, &self.profile));
        let name = machine.name(&self.profile);
        let node = client.patch::<HeaderOnly>(&kinds::NODE, "", &name, labels, None).await?;
        self.node_status(client, machine).await?;
        Ok(node)
    }

    async fn node_status(&self, client: &Client, machine: Machine) -> Result<(), ApiError> {
        let status = identity::status(machine, &self.profile, self.since, now().wall);
        let patch = Patch::Strategic(json!({ "status": status }));
        let name = machine.name(&self.profile);
        client.patch::<IgnoredAny>(&kinds::NODE, "", &name, patch, Some("status")).await.map(drop)
    }

    pub async fn report_node(&self, at: u32, machine: Machine) -> Event {
        let outcome = match self.node_status(&self.clients.writes, machine).await {
            Ok(()) => Reported::Done,
            Err(ApiError::NotFound(_)) => Reported::Gone,
            Err(error) => {
                self.failed("a machine's status could not be written", &error);
                Reported::Failed
            }
        };
        Event::NodeReported { machine: at, outcome }
    }

    pub async fn renew(&self, at: u32, machine: Machine, owner: Uid, create: bool) -> Event {
        let name = machine.name(&self.profile);
        let outcome = tokio::time::timeout(PATIENCE, self.lease(&name, &owner, create)).await;
        let outcome = match outcome {
            Ok(Ok(())) => Renewal::Done,
            Ok(Err(ApiError::AlreadyExists(_) | ApiError::NotFound(_))) => Renewal::Otherwise,
            Ok(Err(error)) => {
                self.failed("a Lease could not be renewed", &error);
                Renewal::Failed
            }
            Err(_) => Renewal::Failed,
        };
        Event::Renewed { machine: at, outcome }
    }

    async fn lease(&self, name: &str, owner: &Uid, create: bool) -> Result<(), ApiError> {
        let (client, ns, wall) = (&self.clients.leases, heartbeat::NAMESPACE, now().wall);
        if create {
            let lease = heartbeat::lease(name, owner.as_str(), wall);
            return client.create::<IgnoredAny>(&kinds::LEASE, ns, &lease).await.map(drop);
        }
        let patch = Patch::Merge(heartbeat::renewal(name, wall));
        client.patch::<IgnoredAny>(&kinds::LEASE, ns, name, patch, None).await.map(drop)
    }

    pub async fn status(&self, pod: &Pod, status: &PodStatus) -> Event {
        let meta = &pod.metadata;
        let patch = Patch::Strategic(report::body(pod, status));
        let client = &self.clients.writes;
        let result = client.patch::<IgnoredAny>(&kinds::POD, &meta.namespace, &meta.name, patch, Some("status")).await;
        let outcome = match result {
            Ok(_) | Err(ApiError::NotFound(_)) => Written::Done,
            Err(e) => {
                self.failed("a pod's status could not be written", &e);
                if e.is_transient() || e.is_conflict() && report::is_ours(&e) {
                    Written::Again
                } else {
                    Written::Refused
                }
            }
        };
        Event::StatusWritten { uid: meta.uid.clone(), outcome }
    }

    /// The API forgets the pod now that nothing of it runs.
    pub async fn delete(&self, pod: &Pod) -> Event {
        let meta = &pod.metadata;
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(pod.uid()) };
        let result = match self.clients.writes.delete(&kinds::POD, &meta.namespace, &meta.name, &options).await {
            // Another pod has the name: ours is gone.
            Ok(()) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(()),
            Err(error) => {
                self.failed("a pod could not be deleted", &error);
                Err(error.chain())
            }
        };
        Event::Deleted { uid: meta.uid.clone(), result }
    }
}
