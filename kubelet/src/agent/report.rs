//! Sends pods' statuses to the API: the newest one of each pod, one write in flight per pod, again after a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Client, Patch};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::api::{Pod, PodStatus};

/// Writes in flight at once, over all pods.
const WRITERS: usize = 16;
const RETRY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Reporter {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    /// Per pod uid: the status that waits, if any. An entry exists while a writer of that pod runs.
    pods: Mutex<BTreeMap<String, Option<Report>>>,
    idle: Notify,
    writers: Semaphore,
}

struct Report {
    pod: Arc<Pod>,
    body: Value,
}

/// The patch that makes the API show this status.
pub(crate) fn body(pod: &Pod, status: &PodStatus) -> Value {
    let mut value = json!(status);
    if let (Some(before), Some(after)) = (&pod.status.pod_ips, &status.pod_ips)
        && before != after
        && let Some(list) = value["podIPs"].as_array_mut()
    {
        // These lists merge by address: without the directive an old address would stay.
        list.push(json!({"$patch": "replace"}));
    }
    if pod.status.host_ips.iter().any(|before| !status.host_ips.contains(before))
        && let Some(list) = value["hostIPs"].as_array_mut()
    {
        list.push(json!({"$patch": "replace"}));
    }
    json!({"metadata": {"uid": pod.uid()}, "status": value})
}

impl Reporter {
    pub fn new(client: Client) -> Self {
        let shared = Shared { client, pods: Mutex::default(), idle: Notify::new(), writers: Semaphore::new(WRITERS) };
        Self { shared: Arc::new(shared) }
    }

    pub fn report(&self, pod: Arc<Pod>, status: &PodStatus) {
        let uid = pod.uid().to_owned();
        let report = Report { body: body(&pod, status), pod };
        let running = self.shared.pods.lock().insert(uid.clone(), Some(report)).is_some();
        if !running {
            tokio::spawn(Shared::write(self.shared.clone(), uid));
        }
    }

    /// Returns once nothing of this pod waits to be written.
    pub async fn flush(&self, uid: &str) {
        loop {
            let idle = self.shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if !self.shared.pods.lock().contains_key(uid) {
                return;
            }
            idle.await;
        }
    }
}

impl Shared {
    async fn write(shared: Arc<Self>, uid: String) {
        loop {
            let report = {
                let mut pods = shared.pods.lock();
                match pods.get_mut(&uid).and_then(Option::take) {
                    Some(report) => report,
                    None => {
                        pods.remove(&uid);
                        break;
                    }
                }
            };
            let Ok(permit) = shared.writers.acquire().await else { return };
            let meta = &report.pod.metadata;
            let patch = Patch::Strategic(report.body.clone());
            let call = shared.client.patch::<Value>(&kinds::POD, &meta.namespace, &meta.name, patch, Some("status"));
            let result = call.await;
            drop(permit);
            match result {
                Ok(_) | Err(ApiError::NotFound(_)) => {}
                Err(e) if e.is_transient() || e.is_conflict() && is_ours(&e) => {
                    tracing::debug!(pod = %report.pod.label(), error = %e.chain(), "status not written, trying again");
                    tokio::time::sleep(RETRY).await;
                    let mut pods = shared.pods.lock();
                    if let Some(slot) = pods.get_mut(&uid) {
                        slot.get_or_insert(report);
                    }
                }
                Err(e) => tracing::warn!(pod = %report.pod.label(), error = %e.chain(), "status refused"),
            }
        }
        shared.idle.notify_waiters();
    }
}

/// A conflict over the version is worth another try; one over the uid means another pod has the name.
pub(crate) fn is_ours(e: &ApiError) -> bool {
    !e.chain().contains("UID")
}
