//! Writes core/v1 Events: callers hand over what happened and go on; a task of its own writes it down. Repeats become
//! counts. Never blocks a caller and never holds more than a bounded queue: the oldest is dropped and counted.

mod correlate;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::options::Patch;
use correlate::{Correlator, Write};

/// Events that wait to be written.
const QUEUE: usize = 1024;
/// As many as one request may carry.
const TOGETHER: usize = 256;
/// A server that takes no batches is asked again after this.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// A server that does not answer now gets this many chances per event.
const ATTEMPTS: u32 = 3;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// `spec.containers{web}` for what concerns one container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl ObjectRef {
    pub fn of(kind: &Kind, object: &impl Object) -> Self {
        let meta = object.meta();
        ObjectRef {
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.to_string(),
            resource_version: meta.resource_version.clone(),
            field_path: String::new(),
        }
    }

    /// The same object, narrowed to one of its containers.
    #[must_use]
    pub fn container(mut self, name: &str) -> Self {
        self.field_path = format!("spec.containers{{{name}}}");
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventType {
    Normal,
    Warning,
}

/// What a caller said happened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Happening {
    about: ObjectRef,
    event_type: EventType,
    reason: String,
    message: String,
    /// The machine that speaks; empty: the recorder's own.
    host: String,
    /// When the caller said it; it may be written much later.
    at: Timestamp,
}

/// A cheap handle; writing ends with the last one, after what is queued.
#[derive(Clone)]
pub struct EventRecorder {
    queue: Arc<Queue>,
    clock: Arc<dyn Clock>,
    metrics: Option<Metrics>,
    _running: Arc<DropGuard>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Happening>>,
    wake: Notify,
}

impl EventRecorder {
    /// `component` is who speaks, such as `default-scheduler`; `host` is the machine, where that matters.
    pub fn new(client: Client, component: impl Into<String>, host: impl Into<String>) -> Self {
        Self::start(client, component.into(), host.into(), Arc::new(SystemClock), None)
    }

    /// The same, with its losses counted in `metrics`.
    pub fn with_metrics(client: Client, component: &str, host: &str, metrics: Metrics) -> Self {
        Self::start(client, component.to_owned(), host.to_owned(), Arc::new(SystemClock), Some(metrics))
    }

    fn start(client: Client, component: String, host: String, clock: Arc<dyn Clock>, metrics: Option<Metrics>) -> Self {
        let (queue, ended) = (Arc::<Queue>::default(), CancellationToken::new());
        let metrics_too = metrics.clone();
        let writer =
            Writer { client, component, host, metrics: metrics_too, correlator: Correlator::new(), batches_from: None };
        tokio::spawn(writer.run(queue.clone(), ended.clone()));
        EventRecorder { queue, clock, metrics, _running: Arc::new(ended.drop_guard()) }
    }

    /// Notes an event; never waits.
    pub fn event(&self, about: &ObjectRef, event_type: EventType, reason: &str, message: &str) {
        self.event_from("", about, event_type, reason, message);
    }

    /// The same on behalf of another machine.
    pub fn event_from(&self, host: &str, about: &ObjectRef, event_type: EventType, reason: &str, message: &str) {
        let (reason, message, at) = (reason.to_owned(), cut(message), self.clock.now());
        let happening = Happening { about: about.clone(), event_type, reason, message, host: host.to_owned(), at };
        {
            let mut waiting = self.queue.waiting.lock();
            if waiting.len() >= QUEUE {
                waiting.pop_front();
                if let Some(metrics) = &self.metrics {
                    metrics.events().dropped.inc();
                }
            }
            waiting.push_back(happening);
        }
        self.queue.wake.notify_one();
    }
}

/// The API refuses messages longer than 1,024 bytes.
fn cut(message: &str) -> String {
    let mut end = message.len().min(1024);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

struct Writer {
    client: Client,
    component: String,
    host: String,
    metrics: Option<Metrics>,
    correlator: Correlator,
    /// When to ask again whether the server takes several at once, once it did not.
    batches_from: Option<Instant>,
}

const BATCHES: &str = "/apis/gantry.dev/v1/events";

#[derive(Deserialize)]
struct BatchResult {
    #[serde(default)]
    items: Vec<ItemResult>,
}

#[derive(Deserialize)]
struct ItemResult {
    code: u16,
    #[serde(default)]
    message: String,
}

impl Writer {
    async fn run(mut self, queue: Arc<Queue>, ended: CancellationToken) {
        loop {
            let waiting: Vec<Happening> = {
                let mut waiting = queue.waiting.lock();
                let together = waiting.len().min(TOGETHER);
                waiting.drain(..together).collect()
            };
            match waiting.len() {
                0 if ended.is_cancelled() => return,
                0 => drop(ended.run_until_cancelled(queue.wake.notified()).await),
                _ => self.record(waiting).await,
            }
        }
    }

    /// What waits is written together; the server syncs events now and then, and one at a time would be a few a second.
    async fn record(&mut self, waiting: Vec<Happening>) {
        let mut writes: Vec<(Happening, Write)> = Vec::with_capacity(waiting.len());
        for happening in waiting {
            if let Some(write) = self.correlator.observe(&happening) {
                writes.push((happening, write));
            }
        }
        let batches = self.batches_from.is_none_or(|from| Instant::now() >= from);
        if writes.len() > 1 && batches {
            writes = self.batch(writes).await;
        }
        for (happening, write) in writes {
            self.single(happening, write).await;
        }
    }

    /// Writes them in one request; answers those that have to be written in another way.
    async fn batch(&mut self, writes: Vec<(Happening, Write)>) -> Vec<(Happening, Write)> {
        // Of several about the same, the last says all.
        let last: BTreeMap<&str, usize> =
            writes.iter().enumerate().map(|(at, (_, write))| (&*write.name, at)).collect();
        let last: BTreeSet<usize> = last.into_values().collect();
        let told = last.iter().map(|at| &writes[*at]);
        let items: Vec<Value> =
            told.map(|(happening, write)| self.form(happening, write, namespace(&happening.about))).collect();
        let body = json!({"apiVersion": "gantry.dev/v1", "kind": "EventBatch", "items": items});
        for attempt in 0..ATTEMPTS {
            match self.client.post::<BatchResult>(BATCHES, &body).await {
                Err(error) if error.is_transient() && attempt + 1 < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
                }
                Ok(result) if result.items.len() == last.len() => {
                    let outcomes: BTreeMap<usize, ItemResult> = last.into_iter().zip(result.items).collect();
                    return self.left(writes, outcomes);
                }
                // An older server, one that is no Gantry, or one that has yet to make its roles.
                Err(error) if error.is_not_found() || error.is_forbidden() => {
                    self.batches_from = Some(Instant::now() + ASK_AGAIN);
                    return writes;
                }
                // One of them may spoil it for all.
                _ => return writes,
            }
        }
        writes
    }

    /// Those of a batch that are worth a request of their own: the server was busy, or the event has expired meanwhile.
    fn left(
        &self,
        writes: Vec<(Happening, Write)>,
        mut outcomes: BTreeMap<usize, ItemResult>,
    ) -> Vec<(Happening, Write)> {
        let mut left = Vec::new();
        for (at, write) in writes.into_iter().enumerate() {
            match outcomes.remove(&at) {
                Some(item) if item.code == 404 || item.code == 429 || item.code >= 500 => left.push(write),
                Some(item) if item.code >= 300 => self.failed(&item.message),
                _ => {}
            }
        }
        left
    }

    fn failed(&self, why: &str) {
        if let Some(metrics) = &self.metrics {
            metrics.events().failed.inc();
        }
        tracing::debug!(why, "an event was not written");
    }

    async fn single(&self, happening: Happening, write: Write) {
        for attempt in 0..ATTEMPTS {
            let result = self.write(&happening, &write).await;
            match result {
                Err(error) if error.is_transient() && attempt + 1 < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
                }
                Err(error) => return self.failed(&error.chain()),
                Ok(()) => return,
            }
        }
    }

    async fn write(&self, happening: &Happening, write: &Write) -> Result<(), ApiError> {
        let ns = namespace(&happening.about);
        if write.count > 1 {
            let patch = json!({"count": write.count, "lastTimestamp": write.last, "message": write.message});
            match self.client.patch::<Value>(&kinds::EVENT, ns, &write.name, Patch::Merge(patch), None).await {
                // It has expired meanwhile: tell it anew.
                Err(error) if error.is_not_found() => {}
                result => return result.map(drop),
            }
        }
        let event = self.form(happening, write, ns);
        match self.client.create::<Value>(&kinds::EVENT, ns, &event).await {
            // An earlier attempt got through although its answer was lost.
            Err(error) if error.is_already_exists() => Ok(()),
            result => result.map(drop),
        }
    }

    fn form(&self, happening: &Happening, write: &Write, ns: &str) -> Value {
        let host = if happening.host.is_empty() { &self.host } else { &happening.host };
        let mut source = json!({"component": self.component});
        if !host.is_empty() {
            source["host"] = json!(host);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": write.name, "namespace": ns},
            "involvedObject": happening.about,
            "reason": happening.reason,
            "message": write.message,
            "type": happening.event_type,
            "count": write.count,
            "firstTimestamp": write.first,
            "lastTimestamp": write.last,
            "eventTime": null,
            "source": source,
            "reportingComponent": self.component,
            "reportingInstance": host,
        })
    }
}

/// Events about objects without a namespace live in `default`.
fn namespace(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

#[cfg(test)]
mod tests;
