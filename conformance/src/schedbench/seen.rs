//! Who sees pods become bound and ready: a watch of bound pods, on a thread of its own. It notes when; it judges nothing.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use crate::apibench::Identity;
use crate::apibench::servers::ADDRESS;
use crate::apibench::wire::{Call, Link};
use crate::storebench::load::runtime;
use anyhow::Context;
use http_body_util::BodyExt;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long nothing may happen while something is expected.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

/// What became of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Pod {
    pub bound: Instant,
    pub ready: Option<Instant>,
}

/// Pods of one group: their names begin alike.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub pods: HashMap<String, Pod>,
    pub ready: usize,
    pub gone: usize,
}

impl Group {
    pub fn last(&self) -> Option<Instant> {
        self.pods.values().map(|pod| pod.bound).max()
    }

    pub fn last_ready(&self) -> Option<Instant> {
        self.pods.values().filter_map(|pod| pod.ready).max()
    }
}

#[derive(Default)]
struct Notes {
    groups: HashMap<String, Group>,
    events: u64,
    /// How often the watch was cut off.
    resumed: u64,
    ended: Option<String>,
}

/// The thread ends with the API server.
#[derive(Clone)]
pub struct Seen {
    notes: Arc<Mutex<Notes>>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: &'a str,
    #[serde(borrow, default)]
    resource_version: &'a str,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    container_statuses: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    ready: bool,
}

/// The group of a pod: its name up to the last hyphen.
fn group_of(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(group, _)| group)
}

impl Notes {
    fn hear(&mut self, line: &[u8], at: Instant, version: &mut String) -> anyhow::Result<()> {
        let Line { kind, object } = serde_json::from_slice(line)
            .with_context(|| format!("an event: {}", String::from_utf8_lossy(&line[..line.len().min(300)])))?;
        let name = object.metadata.name;
        if kind != "ERROR" {
            object.metadata.resource_version.clone_into(version);
        }
        match kind {
            "ADDED" | "MODIFIED" => {}
            "DELETED" => {
                self.groups.entry(group_of(name).to_owned()).or_default().gone += 1;
                return Ok(());
            }
            _ => anyhow::bail!("{kind}: {}", String::from_utf8_lossy(&line[..line.len().min(300)])),
        }
        self.events += 1;
        let containers = &object.status.container_statuses;
        let ready = !containers.is_empty() && containers.iter().all(|container| container.ready);
        let group = match self.groups.get_mut(group_of(name)) {
            Some(group) => group,
            None => self.groups.entry(group_of(name).to_owned()).or_default(),
        };
        let pod = match group.pods.get_mut(name) {
            Some(pod) => pod,
            None => group.pods.entry(name.to_owned()).or_insert(Pod { bound: at, ready: None }),
        };
        if ready && pod.ready.is_none() {
            pod.ready = Some(at);
            group.ready += 1;
        }
        Ok(())
    }
}

impl Seen {
    /// Everything of a collection of pods after `version` is noted.
    pub fn start(identity: Identity, pods: String, version: String) -> Self {
        let notes = Arc::new(Mutex::new(Notes::default()));
        let noted = notes.clone();
        std::thread::spawn(move || {
            let ended = runtime().and_then(|runtime| runtime.block_on(follow(&identity, &pods, version, &noted)));
            let reason = ended.map_or_else(|error| format!("{error:#}"), |()| "the watch ended".to_owned());
            lock(&noted).ended = Some(reason);
        });
        Self { notes }
    }

    /// What is known of a group now.
    pub fn group(&self, name: &str) -> Group {
        lock(&self.notes).groups.get(name).cloned().unwrap_or_default()
    }

    /// How often the watch was cut off and went on. What came in between was seen late.
    pub fn resumed(&self) -> u64 {
        lock(&self.notes).resumed
    }

    /// Waits until `enough` of the group, which `count` counts. Fails when a minute brings nothing.
    pub fn wait(
        &self,
        name: &str,
        enough: usize,
        count: fn(&Group) -> usize,
        mut alive: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut best, mut since) = (0, Instant::now());
        loop {
            let notes = lock(&self.notes);
            let now = notes.groups.get(name).map_or(0, count);
            if now >= enough {
                return Ok(());
            }
            if let Some(ended) = &notes.ended {
                anyhow::bail!("nobody sees pods any more: {ended}");
            }
            drop(notes);
            if now > best {
                (best, since) = (now, Instant::now());
            }
            anyhow::ensure!(since.elapsed() < PATIENCE, "{now} of {enough} {name} pods after {PATIENCE:?} of nothing");
            alive()?;
            std::thread::sleep(LOOK);
        }
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().expect("no holder of the lock panics")
}

/// A watch that is cut off goes on from where it was: the server drops whoever is slower than events come, as this thread may be
/// beside a burst on few processors.
async fn follow(identity: &Identity, pods: &str, mut version: String, notes: &Mutex<Notes>) -> anyhow::Result<()> {
    loop {
        let before = version.clone();
        watch(identity, pods, &mut version, notes).await?;
        anyhow::ensure!(version != before, "the watch of pods ended twice at version {version}");
        lock(notes).resumed += 1;
    }
}

/// Until the server ends it. Advances `version` with what was noted.
async fn watch(identity: &Identity, pods: &str, version: &mut String, notes: &Mutex<Notes>) -> anyhow::Result<()> {
    let link = Link::connect(ADDRESS, identity).await?;
    let path = format!("{pods}?watch=true&fieldSelector=spec.nodeName%21%3D&resourceVersion={version}");
    let response = link.send(&Call::get(path)).await?;
    anyhow::ensure!(response.status().is_success(), "the watch of pods: {}", response.status());
    let mut body = response.into_body();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else { continue };
        let at = Instant::now();
        rest.extend_from_slice(data);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let mut notes = lock(notes);
        for line in rest[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            notes.hear(line, at, version)?;
        }
        drop(notes);
        rest.drain(..=end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once_and_ready_when_all_its_containers_are() {
        let mut notes = Notes::default();
        let at = Instant::now();
        let mut version = String::new();
        let mut hear = |kind: &str, status: &str| {
            let line = format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"x":1,"name":"m-1","resourceVersion":"7"}},"status":{status}}}}}"#
            );
            notes.hear(line.as_bytes(), at, &mut version).unwrap();
            let group = &notes.groups["m"];
            (group.pods.len(), group.ready, group.gone)
        };
        assert_eq!(hear("ADDED", "{}"), (1, 0, 0));
        assert_eq!(hear("MODIFIED", r#"{"containerStatuses":[{"ready":true},{"ready":false}]}"#), (1, 0, 0));
        assert_eq!(hear("MODIFIED", r#"{"containerStatuses":[{"ready":true},{"ready":true}]}"#), (1, 1, 0));
        assert_eq!(hear("MODIFIED", r#"{"containerStatuses":[{"ready":true},{"ready":true}]}"#), (1, 1, 0));
        assert_eq!(hear("DELETED", "{}"), (1, 1, 1));
        assert!(notes.hear(br#"{"type":"ERROR","object":{"code":410}}"#, at, &mut version).is_err());
        assert_eq!(version, "7", "an error is no place to go on from");
    }
}
