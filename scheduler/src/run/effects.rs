//! Carries out what the engine wants: bulk binds, explanations, evictions. Reports what became of them; retries nothing by
//! itself.

use std::sync::Arc;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Client, DeleteOptions, EventRecorder, EventType, ObjectRef, Patch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::api::{NodeAllocation, Pod};
use crate::engine::{Bind, BindOutcome, Effect, Event, Victim};

/// The server takes this many binds at once.
const BATCH: usize = 256;
/// Batches under way; what is decided meanwhile waits and goes together.
const BATCHES: usize = 4;
/// Between two tries to read an allocation.
const READ_AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

pub(super) struct Effects {
    client: Client,
    recorder: EventRecorder,
    answers: UnboundedSender<Event>,
    binds: Vec<Bind>,
    under_way: Arc<tokio::sync::Semaphore>,
}

#[derive(Deserialize)]
struct BatchResult {
    items: Vec<ItemResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ItemResult {
    code: u16,
    message: String,
    resource_version: String,
}

impl Effects {
    pub fn new(client: Client, recorder: EventRecorder, answers: UnboundedSender<Event>) -> Self {
        let under_way = Arc::new(tokio::sync::Semaphore::new(BATCHES));
        Effects { client, recorder, answers, binds: Vec::new(), under_way }
    }

    /// Starts one effect; binds wait for `flush`.
    pub fn begin(&mut self, effect: Effect) {
        match effect {
            Effect::Bind(bind) => self.binds.push(bind),
            Effect::Explain { pod, message } => self.explain(pod, message),
            Effect::Scheduled { pod, node } => {
                let (ns, name) = (&pod.metadata.namespace, &pod.metadata.name);
                let message = format!("Successfully assigned {ns}/{name} to {node}");
                self.recorder.event(&about(&pod), EventType::Normal, "Scheduled", &message);
            }
            Effect::ReadAllocation(node) => self.read_allocation(node),
            Effect::Evict { victim, preemptor, node } => self.evict(victim, &preemptor, &node),
            Effect::Nominate { pod, node } => self.nominate(pod, node),
        }
    }

    /// Sends the binds collected so far.
    pub fn flush(&mut self) {
        let binds = std::mem::take(&mut self.binds);
        for batch in binds.chunks(BATCH) {
            let (client, answers, under_way) = (self.client.clone(), self.answers.clone(), self.under_way.clone());
            let batch = batch.to_vec();
            tokio::spawn(async move {
                let permit = under_way.acquire_owned().await;
                let outcomes = bind(&client, &batch).await;
                drop(permit);
                for (bind, outcome) in batch.into_iter().zip(outcomes) {
                    // Without a listener the scheduler has ended.
                    drop(answers.send(Event::Bind { uid: bind.uid, outcome }));
                }
            });
        }
    }

    fn explain(&self, pod: Arc<Pod>, message: String) {
        self.recorder.event(&about(&pod), EventType::Warning, "FailedScheduling", &message);
        let known = pod.condition("PodScheduled").filter(|c| c.status == "False");
        let since = known.and_then(|c| c.last_transition_time).unwrap_or_else(|| SystemClock.now());
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null, "lastTransitionTime": since});
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let answers = self.answers.clone();
        let write = self.status(pod.clone(), patch);
        tokio::spawn(async move {
            match write.await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    tracing::warn!(pod = pod.metadata.key(), error = error.chain(), "an explanation was not written");
                    drop(answers.send(Event::ExplainFailed(pod.metadata.uid.to_string())));
                }
                _ => {}
            }
        });
    }

    fn nominate(&self, pod: Arc<Pod>, node: String) {
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node}});
        let write = self.status(pod.clone(), patch);
        tokio::spawn(async move {
            if let Err(error) = write.await {
                tracing::debug!(pod = pod.metadata.key(), error = error.chain(), "a nomination was not written");
            }
        });
    }

    fn status(&self, pod: Arc<Pod>, patch: Value) -> impl Future<Output = Result<Value, ApiError>> + Send + use<> {
        let client = self.client.clone();
        async move {
            let meta = &pod.metadata;
            client.patch(&kinds::POD, &meta.namespace, &meta.name, Patch::Strategic(patch), Some("status")).await
        }
    }

    fn read_allocation(&self, node: String) {
        let (client, answers) = (self.client.clone(), self.answers.clone());
        tokio::spawn(async move {
            let event = match client.get::<NodeAllocation>(&kinds::NODE_ALLOCATION, "", &node).await {
                Ok(allocation) => Event::Allocation(Arc::new(allocation)),
                Err(error) if error.is_not_found() => Event::AllocationGone(node),
                Err(error) => {
                    tracing::warn!(node, error = error.chain(), "an allocation cannot be read");
                    tokio::time::sleep(READ_AGAIN).await;
                    Event::AllocationUnread(node)
                }
            };
            drop(answers.send(event));
        });
    }

    fn evict(&self, victim: Victim, preemptor: &Pod, node: &str) {
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: victim.namespace.clone(),
            name: victim.name.clone(),
            uid: victim.uid.clone(),
            ..ObjectRef::default()
        };
        let message = format!("Preempted by pod {} on node {node}", preemptor.metadata.uid);
        self.recorder.event(&about, EventType::Normal, "Preempted", &message);
        let client = self.client.clone();
        tokio::spawn(async move {
            let Victim { namespace, name, uid } = victim;
            let result = client.delete(&kinds::POD, &namespace, &name, &DeleteOptions::uid(uid)).await;
            match result {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    tracing::warn!(
                        pod = format!("{namespace}/{name}"),
                        error = error.chain(),
                        "could not be preempted"
                    );
                }
                _ => {}
            }
        });
    }
}

fn about(pod: &Pod) -> ObjectRef {
    ObjectRef::of(&kinds::POD, pod)
}

/// One outcome per bind, in order.
async fn bind(client: &Client, batch: &[Bind]) -> Vec<BindOutcome> {
    let items: Vec<Value> = batch
        .iter()
        .map(|b| {
            json!({"namespace": b.namespace, "name": b.name, "uid": b.uid, "node": b.node,
                "allocationVersion": b.allocation_version.to_string()})
        })
        .collect();
    let body = json!({"apiVersion": "gantry.dev/v1", "kind": "BindingBatch", "items": items});
    match client.post::<BatchResult>("/apis/gantry.dev/v1/bindings", &body).await {
        Ok(result) if result.items.len() == batch.len() => result.items.into_iter().map(outcome).collect(),
        Ok(result) => {
            tracing::error!(sent = batch.len(), answered = result.items.len(), "a batch's answer has the wrong length");
            vec![BindOutcome::Unknown; batch.len()]
        }
        Err(error) => {
            tracing::warn!(binds = batch.len(), error = error.chain(), "a batch of binds failed");
            let outcome = match error {
                ApiError::Transport(_) | ApiError::Decode(_) => BindOutcome::Unknown,
                other => BindOutcome::Refused(other.to_string()),
            };
            vec![outcome; batch.len()]
        }
    }
}

fn outcome(item: ItemResult) -> BindOutcome {
    match (item.code, item.resource_version.parse()) {
        (200 | 201, Ok(version)) => BindOutcome::Bound(version),
        (409, _) => BindOutcome::Conflict(item.message),
        (404, _) => BindOutcome::Gone,
        (500.., _) => BindOutcome::Unknown,
        (code, _) => {
            tracing::warn!(code, message = item.message, "a bind was refused");
            BindOutcome::Refused(item.message)
        }
    }
}
