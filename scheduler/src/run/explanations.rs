//! Writes why pods wait, a few at a time: a burst of pods that fit nowhere must not keep the API from what binds others. Of a pod
//! only the last word counts, and none once it has its machine.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{Client, EventRecorder, EventType, Patch};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::effects::about;
use crate::engine::Event;
use crate::pod::PodInfo;

/// Written at once.
const AT_ONCE: usize = 16;
/// More than this many do not wait: they are told again when they are next decided.
const WAITING: usize = 50_000;

struct Word {
    pod: Arc<PodInfo>,
    message: Arc<str>,
    since: Option<Timestamp>,
}

type Words = Arc<Mutex<HashMap<Arc<str>, Word>>>;

pub(super) struct Explanations {
    words: Words,
    queue: mpsc::Sender<Arc<str>>,
    answers: mpsc::UnboundedSender<Event>,
    _running: DropGuard,
}

impl Explanations {
    pub fn start(client: Client, recorder: EventRecorder, answers: mpsc::UnboundedSender<Event>) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let words = Words::default();
        let running = CancellationToken::new();
        let writer = Writer { client, recorder, answers: answers.clone(), words: words.clone() };
        let cancelled = running.clone();
        tokio::spawn(async move { cancelled.run_until_cancelled(writer.run(waiting)).await });
        Explanations { words, queue, answers, _running: running.drop_guard() }
    }

    pub fn tell(&self, pod: Arc<PodInfo>, message: Arc<str>, since: Option<Timestamp>) {
        let uid = pod.uid.clone();
        let known = self.words.lock().insert(uid.clone(), Word { pod, message, since }).is_some();
        if !known && self.queue.try_send(uid.clone()).is_err() {
            self.words.lock().remove(&uid);
            drop(self.answers.send(Event::ExplainFailed(uid)));
        }
    }

    /// The pod has its machine: what was to be said is not true any more.
    pub fn forget(&self, uid: &Arc<str>) {
        self.words.lock().remove(uid);
    }
}

struct Writer {
    client: Client,
    recorder: EventRecorder,
    answers: mpsc::UnboundedSender<Event>,
    words: Words,
}

impl Writer {
    async fn run(&self, waiting: mpsc::Receiver<Arc<str>>) {
        let waiting = futures::stream::unfold(waiting, |mut queue| async move { Some((queue.recv().await?, queue)) });
        waiting.for_each_concurrent(AT_ONCE, |uid| self.write(uid)).await;
    }

    async fn write(&self, uid: Arc<str>) {
        let word = self.words.lock().remove(&uid);
        let Some(Word { pod, message, since }) = word else { return };
        self.recorder.event(&about(&pod), EventType::Warning, "FailedScheduling", &message);
        let since = since.unwrap_or_else(|| SystemClock.now());
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null, "lastTransitionTime": since});
        let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
        let written: Result<Value, _> =
            self.client.patch(&kinds::POD, &pod.namespace, &pod.name, Patch::Strategic(patch), Some("status")).await;
        match written {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                tracing::warn!(pod = pod.key(), error = error.chain(), "an explanation was not written");
                drop(self.answers.send(Event::ExplainFailed(uid)));
            }
            _ => {}
        }
    }
}
