//! Carries out what the engine wants: bulk binds, explanations, evictions. Reports what became of them; retries nothing by
//! itself.

use std::sync::Arc;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{ApiError, Client, DeleteOptions, EventRecorder, EventType, ObjectRef, Patch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::explanations::Explanations;
use crate::api::{NodeAllocation, PlacementReview};
use crate::engine::{Bind, BindOutcome, Effect, Event, TIMED_OUT, Victim};
use crate::explain::report::Report;
use crate::plugins::claims::VolumeWrite;
use crate::pod::PodInfo;

/// The server takes this many binds at once.
const BATCH: usize = 256;
/// Batches under way; what is decided meanwhile waits and goes together.
const BATCHES: usize = 4;
/// Evictions, nominations and answers under way.
const WRITES: usize = 32;
/// Between two tries to read an allocation.
const READ_AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

pub(super) struct Effects {
    client: Client,
    recorder: EventRecorder,
    answers: UnboundedSender<Event>,
    /// What is to be bound, those of one machine together.
    binds: Vec<Vec<Bind>>,
    under_way: Arc<Semaphore>,
    /// Bounds what else is written at once.
    writes: Writes,
    explanations: Explanations,
}

/// Turns at writing. Once the effects are dropped, as a scheduler does that leads no more, no turn begins: another one may
/// have other victims in mind by then.
#[derive(Clone)]
struct Writes {
    turns: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Writes {
    /// Runs the write when it is its turn.
    fn begin(&self, write: impl Future<Output = ()> + Send + 'static) {
        let Writes { turns, ended } = self.clone();
        tokio::spawn(async move {
            let turn = ended.run_until_cancelled(turns.acquire_owned()).await;
            if let Some(Ok(_turn)) = turn
                && !ended.is_cancelled()
            {
                write.await;
            }
        });
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        self.writes.ended.cancel();
    }
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
    cause: String,
    resource_version: String,
}

impl Effects {
    pub fn new(client: Client, recorder: EventRecorder, answers: UnboundedSender<Event>) -> Self {
        let under_way = Arc::new(Semaphore::new(BATCHES));
        let writes = Writes { turns: Arc::new(Semaphore::new(WRITES)), ended: CancellationToken::new() };
        let explanations = Explanations::start(client.clone(), recorder.clone(), answers.clone());
        Effects { client, recorder, answers, binds: Vec::new(), under_way, writes, explanations }
    }

    /// Starts one effect; binds wait for `flush`.
    pub fn begin(&mut self, effect: Effect) {
        match effect {
            Effect::Bind { binds, gang: None } => self.binds.push(binds),
            Effect::Bind { binds, gang: Some(gang) } => self.send(binds, Some(gang), None),
            Effect::Explain { pod, message, since } => self.explanations.tell(pod, message, since),
            Effect::Scheduled { pod, node, .. } => {
                self.explanations.forget(&pod.uid);
                let (ns, name) = (&pod.namespace, &pod.name);
                let message = format!("Successfully assigned {ns}/{name} to {node}");
                self.recorder.event(&about(&pod), EventType::Normal, "Scheduled", &message);
            }
            Effect::ReadAllocation(node) => self.read_allocation(node),
            Effect::Evict { victim, preemptor, node } => self.evict(victim, &preemptor, &node),
            Effect::Nominate { pod, node } => self.nominate(pod, &node),
            Effect::PrepareVolumes { pod, writes } => self.prepare_volumes(pod, writes),
            Effect::Group { namespace, name, phase, scheduled, timed_out_s } => {
                self.group(namespace, name, group_status(phase, scheduled, timed_out_s, SystemClock.now()));
            }
            Effect::Answer { review, answer } => self.answer(review, answer),
        }
    }

    /// Sends what was collected, as far as batches may be under way: the rest goes together when one of them was answered.
    pub fn flush(&mut self) {
        while !self.binds.is_empty()
            && let Ok(permit) = self.under_way.clone().try_acquire_owned()
        {
            let batch = next_batch(&mut self.binds);
            self.send(batch, None, Some(permit));
        }
    }

    /// One request; without a permit as soon as it gets one.
    fn send(&self, batch: Vec<Bind>, gang: Option<String>, permit: Option<OwnedSemaphorePermit>) {
        let (client, answers, under_way) = (self.client.clone(), self.answers.clone(), self.under_way.clone());
        tokio::spawn(async move {
            let permit = match permit {
                Some(permit) => Ok(permit),
                None => under_way.acquire_owned().await,
            };
            let outcomes = bind(&client, &batch, gang.as_deref()).await;
            // Before the answers: who hears them sends the next batch.
            drop(permit);
            for (bind, outcome) in batch.into_iter().zip(outcomes) {
                // Without a listener the scheduler has ended.
                drop(answers.send(Event::Bind { uid: bind.pod.uid.clone(), outcome }));
            }
        });
    }

    fn nominate(&self, pod: Arc<PodInfo>, node: &str) {
        let write = self.status(&pod, json!({"nominatedNodeName": node}));
        self.writes.begin(async move {
            if let Err(error) = write.await {
                tracing::debug!(pod = pod.key(), error = error.chain(), "a nomination was not written");
            }
        });
    }

    fn status(&self, pod: &PodInfo, status: Value) -> impl Future<Output = Result<Value, ApiError>> + Send + use<> {
        let (client, ns, name) = (self.client.clone(), pod.namespace.clone(), pod.name.to_string());
        let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
        async move { client.patch(&kinds::POD, &ns, &name, Patch::Strategic(patch), Some("status")).await }
    }

    fn prepare_volumes(&self, pod: Arc<PodInfo>, volumes: Vec<VolumeWrite>) {
        let (client, answers) = (self.client.clone(), self.answers.clone());
        self.writes.begin(async move {
            for volume in volumes {
                if let Err(error) = super::volumes::write(&client, &volume).await {
                    tracing::info!(pod = pod.key(), error = error.chain(), "a volume was not prepared");
                    drop(answers.send(Event::VolumesUnwritten(pod.uid.clone())));
                    return;
                }
            }
        });
    }

    fn group(&self, namespace: String, name: String, status: Value) {
        let client = self.client.clone();
        self.writes.begin(async move {
            let patch = Patch::Merge(json!({"status": status}));
            let written: Result<Value, _> =
                client.patch(&kinds::POD_GROUP, &namespace, &name, patch, Some("status")).await;
            if let Err(error) = written {
                tracing::debug!(namespace, name, error = error.chain(), "a pod group's status was not written");
            }
        });
    }

    fn answer(&self, review: Arc<PlacementReview>, answer: Result<Box<Report>, String>) {
        let answered = SystemClock.now();
        let status = match answer {
            Ok(report) => {
                let message = report.summary();
                json!({"phase": "Answered", "answeredAt": answered, "message": message, "result": report})
            }
            Err(message) => json!({"phase": "Failed", "answeredAt": answered, "message": message}),
        };
        let client = self.client.clone();
        self.writes.begin(async move {
            let meta = &review.metadata;
            let patch = Patch::Merge(json!({"metadata": {"uid": meta.uid}, "status": status}));
            let kind = &kinds::PLACEMENT_REVIEW;
            let written: Result<Value, _> =
                client.patch(kind, &meta.namespace, &meta.name, patch, Some("status")).await;
            if let Err(error) = written {
                tracing::debug!(review = meta.key(), error = error.chain(), "an answer was not written");
            }
        });
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

    fn evict(&self, victim: Victim, preemptor: &PodInfo, node: &str) {
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: victim.namespace.clone(),
            name: victim.name.clone(),
            uid: victim.uid.clone(),
            ..ObjectRef::default()
        };
        let message = format!("Preempted by pod {} on node {node}", preemptor.uid);
        self.recorder.event(&about, EventType::Normal, "Preempted", &message);
        let (client, answers) = (self.client.clone(), self.answers.clone());
        self.writes.begin(async move {
            let ended = end(&client, &victim, &message).await;
            if let Err(error) = ended {
                let pod = format!("{}/{}", victim.namespace, victim.name);
                tracing::warn!(pod, error = error.chain(), "could not be preempted");
                drop(answers.send(Event::EvictFailed(victim.uid.into())));
            }
        });
    }
}

/// A PodGroup's status: with the condition that it timed out, or without any.
fn group_status(phase: &str, scheduled: u32, timed_out_s: Option<u32>, now: Timestamp) -> Value {
    let conditions = timed_out_s.map(|limit_s| {
        json!({"type": "Scheduled", "status": "False", "reason": TIMED_OUT, "lastTransitionTime": now,
            "message": format!("not placed within {limit_s} s; it goes behind others and is tried again")})
    });
    json!({"phase": phase, "scheduled": scheduled, "conditions": conditions.as_slice()})
}

/// Says why the pod ends, for those that count disruptions apart from failures, and deletes it. One that is gone is fine.
async fn end(client: &Client, victim: &Victim, message: &str) -> Result<(), ApiError> {
    let Victim { namespace, name, uid, grace_s } = victim;
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": message, "lastTransitionTime": SystemClock.now()});
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    let patch = Patch::Strategic(patch);
    let told: Result<Value, _> = client.patch(&kinds::POD, namespace, name, patch, Some("status")).await;
    let options = DeleteOptions { grace_period_seconds: Some(*grace_s), ..DeleteOptions::uid(uid.clone()) };
    let ended = match told {
        Ok(_) => client.delete(&kinds::POD, namespace, name, &options).await.map(drop),
        Err(error) => Err(error),
    };
    match ended {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        ended => ended,
    }
}

pub(super) fn about(pod: &PodInfo) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.namespace.clone(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        ..ObjectRef::default()
    }
}

/// Takes what goes next: the most important first, then what was decided first. Those of one machine stay together.
fn next_batch(binds: &mut Vec<Vec<Bind>>) -> Vec<Bind> {
    let importance = |of_one: &Vec<Bind>| of_one.iter().map(|bind| bind.importance).max();
    binds.sort_by_key(|of_one| std::cmp::Reverse(importance(of_one)));
    let mut count = 0;
    let fits = |of_one: &&Vec<Bind>| {
        count += of_one.len();
        count <= BATCH
    };
    // One machine's that are too many alone still have to go.
    let first = binds.iter().take_while(fits).count().max(1).min(binds.len());
    binds.drain(..first).flatten().collect()
}

/// One outcome per bind, in order.
async fn bind(client: &Client, batch: &[Bind], gang: Option<&str>) -> Vec<BindOutcome> {
    let items: Vec<Value> = batch
        .iter()
        .map(|b| {
            let mut item = json!({"namespace": b.pod.namespace, "name": b.pod.name, "uid": b.pod.uid, "node": b.node,
                "allocationVersion": b.allocation_version.to_string()});
            if let Some(gang) = gang {
                item["group"] = json!(gang);
            }
            if b.pod.generation > 0 {
                item["generation"] = json!(b.pod.generation);
            }
            item
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
        (409, _) if item.cause == "AtMostOneClaimHeld" => BindOutcome::ClaimHeld(item.message),
        (409, _) => BindOutcome::Conflict(item.message),
        (404, _) => BindOutcome::Gone,
        (500.., _) => BindOutcome::Unknown,
        (code, _) => {
            tracing::warn!(code, message = item.message, "a bind was refused");
            BindOutcome::Refused(item.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Pod;
    use crate::pod::{Band, Importance};

    fn bind(name: &str, priority: i64) -> Bind {
        let pod = json!({"metadata": {"name": name}, "spec": {"priority": priority}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let (pod, importance) = (Arc::new(PodInfo::read(&pod)), Importance::of(Band::Ordinary, priority));
        Bind { pod, node: "m".into(), allocation_version: 1, importance }
    }

    #[tokio::test]
    async fn what_waits_for_its_turn_does_not_begin_after_the_end() {
        let writes = Writes { turns: Arc::new(Semaphore::new(1)), ended: CancellationToken::new() };
        let (begun, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let (go, waits) = tokio::sync::oneshot::channel::<()>();
        let first = begun.clone();
        writes.begin(async move {
            first.send("first began").unwrap();
            let _ = waits.await;
            first.send("first ended").unwrap();
        });
        assert_eq!(hears.recv().await, Some("first began"));
        writes.begin(async move { begun.send("second began").unwrap() });
        writes.ended.cancel();
        go.send(()).unwrap();
        assert_eq!(hears.recv().await, Some("first ended"));
        assert_eq!(hears.recv().await, None, "the second never begins");
    }

    fn names(batch: &[Bind]) -> Vec<&str> {
        batch.iter().map(|bind| &*bind.pod.name).collect()
    }

    #[test]
    fn the_most_important_goes_first_and_one_machines_binds_together() {
        let mut binds = vec![vec![bind("a", 0), bind("b", 0)], vec![bind("c", 0), bind("d", 9)], vec![bind("e", 9)]];
        assert_eq!(names(&next_batch(&mut binds)), ["c", "d", "e", "a", "b"]);
        assert!(binds.is_empty() && next_batch(&mut binds).is_empty());
    }

    #[test]
    fn what_does_not_fit_a_batch_stays() {
        let many = |count: usize| (0..count).map(|_| bind("p", 0)).collect::<Vec<_>>();
        let mut binds = vec![many(200), many(57), many(BATCH + 1)];
        let sizes: Vec<usize> =
            std::iter::from_fn(|| Some(next_batch(&mut binds).len()).filter(|size| *size > 0)).collect();
        assert_eq!(sizes, [200, 57, BATCH + 1]);
    }
}
