//! Everything that happens to pods, and what machines have and lend, from the first event on: watched through the API server that is
//! never killed, in the order of revisions, none left out. It judges nothing.

#![expect(clippy::disallowed_methods, reason = "a person wants to see how long things took")]

use crate::arena::{Arena, PATIENCE};
use anyhow::{Context, bail, ensure};
use futures::{AsyncBufReadExt, TryStreamExt};
use gantry_apimachinery::quantity::Quantity;
use gantry_conformance::wait_for;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A pod at one revision, as far as placement goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub class: String,
    pub cpu_m: i64,
    pub memory: i64,
    pub ended: bool,
    pub deleting: bool,
    /// Its name, and how many must be placed together.
    pub gang: Option<(String, usize)>,
    pub nominated: String,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Pod(Pod),
    PodGone(Pod),
    /// What a machine has: cpu in thousandths, memory, pods. None of it: it is gone.
    Has(String, [i64; 3]),
    /// What it lends to batch: cpu and memory.
    Lends(String, [i64; 2]),
}

#[derive(Clone, Debug)]
pub struct Change {
    pub revision: u64,
    pub what: What,
    pub seen: Instant,
}

#[derive(Default)]
struct Seen {
    changes: Vec<Change>,
    /// The newest version of each pod that is there.
    pods: HashMap<String, Pod>,
    versions: HashMap<String, u64>,
    broken: Option<String>,
}

/// Dropping it ends the watches.
pub struct Record {
    client: kube::Client,
    runtime: tokio::runtime::Handle,
    seen: Arc<Mutex<Seen>>,
    watches: Vec<tokio::task::JoinHandle<()>>,
}

const KINDS: [(&str, &str); 3] =
    [("/api/v1/nodes", "node"), ("/apis/gantry.dev/v1/batchcapacities", "capacity"), ("/api/v1/pods", "pod")];

impl Record {
    pub fn start(arena: &Arena) -> anyhow::Result<Self> {
        let (client, runtime) = (arena.client.clone(), arena.runtime.handle().clone());
        let mut record = Self { client, runtime, seen: Arc::default(), watches: Vec::new() };
        for (path, kind) in KINDS {
            let list = record.runtime.block_on(get(&record.client, path))?;
            let from = revision(&list)?;
            for item in list["items"].as_array().context("a list has items")? {
                record.seen.lock().expect("no holder of the lock panics").take(kind, "ADDED", item)?;
            }
            let (client, seen) = (record.client.clone(), record.seen.clone());
            record.watches.push(record.runtime.spawn(async move {
                let ended = follow(&client, path, kind, from, &seen).await;
                seen.lock().expect("no holder of the lock panics").broken =
                    ended.err().map(|error| format!("{error:?}"));
            }));
        }
        Ok(record)
    }

    /// The pods of a namespace that satisfy something.
    pub fn pods(&self, namespace: &str, which: impl Fn(&Pod) -> bool) -> Vec<Pod> {
        let seen = self.seen.lock().expect("no holder of the lock panics");
        seen.pods.values().filter(|pod| pod.namespace == namespace && which(pod)).cloned().collect()
    }

    pub fn bound(&self, namespace: &str) -> usize {
        self.pods(namespace, |pod| !pod.node.is_empty()).len()
    }

    /// Waits until so many pods are bound at least.
    pub fn wait_bound(&self, namespace: &str, least: usize) -> anyhow::Result<()> {
        wait_for(&format!("{least} pods to be bound"), PATIENCE, || {
            let bound = self.bound(namespace);
            ensure!(bound >= least, "{bound} are");
            Ok(())
        })
    }

    /// Waits until no pod that should stay is without a machine. Call it after they are made: the record is behind by a moment.
    pub fn wait_all_bound(&self, namespace: &str) -> anyhow::Result<()> {
        self.wait_all_bound_of(namespace, |_| true)
    }

    pub fn wait_all_bound_of(&self, namespace: &str, which: impl Fn(&Pod) -> bool) -> anyhow::Result<()> {
        self.catch_up()?;
        wait_for("every pod to be bound", PATIENCE, || {
            let waiting = self.pods(namespace, |pod| pod.node.is_empty() && !pod.deleting && which(pod));
            ensure!(
                waiting.is_empty(),
                "{} wait, {} because of {:?}",
                waiting.len(),
                waiting[0].name,
                waiting[0].message
            );
            Ok(())
        })
    }

    /// Some of those that wait, and why.
    pub fn waiting(&self, namespace: &str) -> String {
        let waiting = self.pods(namespace, |pod| pod.node.is_empty());
        let lines = waiting.iter().take(5).map(|pod| format!("{}: {} {}", pod.name, pod.reason, pod.message));
        format!("{} pods without a machine\n{}", waiting.len(), lines.collect::<Vec<_>>().join("\n"))
    }

    /// Everything, in order, once it has caught up with what is there.
    pub fn changes(&self) -> anyhow::Result<Vec<Change>> {
        self.catch_up()?;
        let mut changes = self.seen.lock().expect("no holder of the lock panics").changes.clone();
        changes.sort_by_key(|change| change.revision);
        Ok(changes)
    }

    /// Waits until everything that is there now is known.
    fn catch_up(&self) -> anyhow::Result<()> {
        let list = self.runtime.block_on(get(&self.client, KINDS[2].0))?;
        let pods = list["items"].as_array().context("a list has items")?;
        wait_for("the record to have caught up", PATIENCE, || {
            let seen = self.seen.lock().expect("no holder of the lock panics");
            if let Some(broken) = &seen.broken {
                bail!("a watch ended: {broken}");
            }
            for pod in pods {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                let known = seen.versions.get(uid).copied().unwrap_or(0);
                ensure!(known >= revision(pod)?, "{} is known as of {known}", pod["metadata"]["name"]);
            }
            Ok(())
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.watches.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Seen {
    fn take(&mut self, kind: &str, event: &str, object: &Value) -> anyhow::Result<()> {
        let revision = revision(object)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = format!("{kind} {}", text(&object["metadata"]["uid"]));
        let key = if kind == "pod" { text(&object["metadata"]["uid"]) } else { key };
        // A watch that goes on tells the last revision again: it may have been cut off in the middle of a transaction.
        if self.versions.get(&key).is_some_and(|known| *known >= revision) {
            return Ok(());
        }
        self.versions.insert(key, revision);
        let gone = event == "DELETED";
        let name = text(&object["metadata"]["name"]);
        let what = match kind {
            "node" => {
                let has = &object["status"]["allocatable"];
                let all =
                    [amount(&has["cpu"])?.milli(), amount(&has["memory"])?.value(), amount(&has["pods"])?.value()];
                What::Has(name, if gone { [0; 3] } else { all })
            }
            "capacity" => {
                let lends = &object["spec"]["lendable"];
                let all = [amount(&lends["cpu"])?.milli(), amount(&lends["memory"])?.value()];
                What::Lends(name, if gone { [0; 2] } else { all })
            }
            _ => {
                let pod = pod(object)?;
                if gone {
                    self.pods.remove(&pod.uid);
                    What::PodGone(pod)
                } else {
                    self.pods.insert(pod.uid.clone(), pod.clone());
                    What::Pod(pod)
                }
            }
        };
        self.changes.push(Change { revision, what, seen: Instant::now() });
        Ok(())
    }
}

fn pod(object: &Value) -> anyhow::Result<Pod> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let mut pod = Pod {
        uid: text(&meta["uid"]),
        namespace: text(&meta["namespace"]),
        name: text(&meta["name"]),
        node: text(&spec["nodeName"]),
        class: text(&spec["priorityClassName"]),
        ended: ["Succeeded", "Failed"].contains(&status["phase"].as_str().unwrap_or_default()),
        deleting: meta["deletionTimestamp"].is_string(),
        nominated: text(&status["nominatedNodeName"]),
        ..Pod::default()
    };
    for container in spec["containers"].as_array().into_iter().flatten() {
        let asks = &container["resources"]["requests"];
        pod.cpu_m = pod.cpu_m.saturating_add(amount(&asks["cpu"])?.milli());
        pod.memory = pod.memory.saturating_add(amount(&asks["memory"])?.value());
    }
    if let Some(gang) = meta["labels"]["gantry.dev/pod-group"].as_str() {
        let least = meta["labels"]["gantry.dev/min-member"].as_str().unwrap_or("0").parse()?;
        pod.gang = Some((gang.to_owned(), least));
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(told) = conditions.iter().find(|c| c["type"] == "PodScheduled") {
        (pod.reason, pod.message) = (text(&told["reason"]), text(&told["message"]));
    }
    Ok(pod)
}

fn amount(value: &Value) -> anyhow::Result<Quantity> {
    match value.as_str() {
        None => Ok(Quantity::default()),
        Some(text) => Quantity::parse(text).with_context(|| text.to_owned()),
    }
}

fn revision(object: &Value) -> anyhow::Result<u64> {
    let version = object["metadata"]["resourceVersion"].as_str().context("no resource version")?;
    version.parse().with_context(|| version.to_owned())
}

async fn get(client: &kube::Client, path: &str) -> anyhow::Result<Value> {
    Ok(client.request(http::Request::get(path).body(Vec::new())?).await?)
}

/// Watches on and on; an error only when something was missed.
async fn follow(
    client: &kube::Client,
    path: &str,
    kind: &str,
    mut from: u64,
    seen: &Mutex<Seen>,
) -> anyhow::Result<()> {
    loop {
        let query = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
        if let Ok(stream) = client.request_stream(http::Request::get(&query).body(Vec::new())?).await {
            let mut lines = std::pin::pin!(stream.lines());
            while let Ok(Some(line)) = lines.try_next().await {
                let Ok(event) = serde_json::from_str::<Value>(&line) else { break };
                let object = &event["object"];
                match event["type"].as_str().unwrap_or_default() {
                    "ERROR" if object["code"] == 410 => bail!("the history is lost: {object}"),
                    "ERROR" => break,
                    "BOOKMARK" => from = from.max(revision(object)?),
                    event => {
                        seen.lock().expect("no holder of the lock panics").take(kind, event, object)?;
                        // Another object of the same transaction may follow.
                        from = from.max(revision(object)?.saturating_sub(1));
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
