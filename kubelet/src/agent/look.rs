//! Looks at the runtime: at once when it hints that something ended, else every second (every five while hints come).
//! Decides how often to look and whose pods changed; never what that means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Message, Shared, now};
use crate::pod::PodSeen;
use crate::runtime::{ContainerSeen, Hint, Result, RunState, SandboxSeen};

const POLL: Duration = Duration::from_secs(1);
const POLL_WITH_HINTS: Duration = Duration::from_secs(5);
/// The runtime hints before its own list shows the end: how long to wait for that.
const SETTLE: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(40), Duration::from_millis(150), Duration::from_millis(500)];
/// Of a termination message at most this is told.
const MESSAGE_LIMIT: usize = 4096;

/// What matters of a pod's sandboxes and containers, to see a change.
type Print = Vec<(String, u8)>;

pub async fn run(shared: Arc<Shared>) {
    let cancel = shared.cancel.clone();
    tokio::select! {
        () = cancel.cancelled() => {}
        () = watch(&shared) => {}
    }
}

async fn watch(shared: &Arc<Shared>) {
    let mut prints: BTreeMap<String, Print> = BTreeMap::new();
    loop {
        let mut hints = shared.runtime.hints().await.ok();
        loop {
            drop(relist(shared, &mut prints).await);
            match next(&mut hints).await {
                Next::Poll => {}
                Next::Hinted => settle(shared, &mut prints).await,
                Next::Broken => break,
            }
        }
        sleep(POLL).await;
    }
}

enum Next {
    Poll,
    Hinted,
    Broken,
}

async fn next(hints: &mut Option<mpsc::Receiver<Hint>>) -> Next {
    match hints {
        Some(rx) => tokio::select! {
            hint = rx.recv() => if hint.is_some() { Next::Hinted } else { Next::Broken },
            () = sleep(POLL_WITH_HINTS) => Next::Poll,
        },
        None => {
            sleep(POLL).await;
            Next::Broken
        }
    }
}

async fn settle(shared: &Arc<Shared>, prints: &mut BTreeMap<String, Print>) {
    for pause in SETTLE {
        sleep(pause).await;
        if relist(shared, prints).await.unwrap_or(false) {
            return;
        }
    }
}

fn group(sandboxes: Vec<SandboxSeen>, containers: Vec<ContainerSeen>, taken_ms: u64) -> BTreeMap<String, PodSeen> {
    let mut pods: BTreeMap<String, PodSeen> = BTreeMap::new();
    for s in sandboxes {
        pods.entry(s.pod_uid.clone()).or_default().sandboxes.push(s);
    }
    for c in containers {
        pods.entry(c.pod_uid.clone()).or_default().containers.push(c);
    }
    for pod in pods.values_mut() {
        pod.taken_ms = taken_ms;
    }
    pods.remove("");
    pods
}

fn print(pod: &PodSeen) -> Print {
    let containers = pod.containers.iter().map(|c| (c.id.clone(), c.state as u8));
    let mut print: Print = pod.sandboxes.iter().map(|s| (s.id.clone(), u8::from(s.ready))).chain(containers).collect();
    print.sort();
    print
}

/// Lists everything and tells the loop of the pods that changed; true when some container or sandbox ended.
async fn relist(shared: &Arc<Shared>, prints: &mut BTreeMap<String, Print>) -> Result<bool> {
    let taken_ms = now().boot_ms;
    let (sandboxes, containers) = tokio::join!(shared.runtime.list_sandboxes(), shared.runtime.list_containers());
    let pods = group(sandboxes?, containers?, taken_ms);
    let mut ended = false;
    let gone: BTreeSet<String> = prints.keys().filter(|uid| !pods.contains_key(*uid)).cloned().collect();
    for uid in gone {
        prints.remove(&uid);
        ended = true;
        drop(shared.out.send(Message::Seen { uid, seen: PodSeen { taken_ms, ..PodSeen::default() } }).await);
    }
    for (uid, pod) in pods {
        let print = print(&pod);
        if prints.get(&uid) == Some(&print) {
            continue;
        }
        ended |= pod.containers.iter().any(|c| c.state == RunState::Exited) || pod.sandboxes.iter().any(|s| !s.ready);
        let seen = details(shared, pod).await?;
        prints.insert(uid.clone(), print);
        drop(shared.out.send(Message::Seen { uid, seen }).await);
    }
    Ok(ended)
}

/// One pod's sandboxes and containers with their full status.
pub async fn one(shared: &Shared, uid: &str) -> Result<PodSeen> {
    let taken_ms = now().boot_ms;
    let (sandboxes, containers) = tokio::join!(shared.runtime.list_sandboxes(), shared.runtime.list_containers());
    let pod = group(sandboxes?, containers?, taken_ms).remove(uid);
    details(shared, pod.unwrap_or(PodSeen { taken_ms, ..PodSeen::default() })).await
}

async fn details(shared: &Shared, mut pod: PodSeen) -> Result<PodSeen> {
    for s in pod.sandboxes.iter_mut().filter(|s| s.ready) {
        match shared.runtime.sandbox_status(&s.id).await {
            Ok(full) => *s = full,
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    let mut containers = vec![];
    for c in pod.containers {
        match container(shared, &c.id).await {
            Ok(full) => containers.push(ContainerSeen { sandbox_id: c.sandbox_id, ..full }),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    pod.containers = containers;
    Ok(pod)
}

/// One container's full status, with the message it left.
pub async fn container(shared: &Shared, id: &str) -> Result<ContainerSeen> {
    let mut seen = shared.runtime.container_status(id).await?;
    if seen.state == RunState::Exited && !seen.message_file.is_empty() {
        let left = tokio::fs::read(&seen.message_file).await.unwrap_or_default();
        let left = String::from_utf8_lossy(&left[..left.len().min(MESSAGE_LIMIT)]).into_owned();
        if !left.is_empty() {
            seen.message = left;
        } else if seen.exit_code != 0 && wants_log_tail(shared, &seen) {
            seen.message = log_tail(&seen.log_path).await;
        }
    }
    Ok(seen)
}

fn wants_log_tail(shared: &Shared, seen: &ContainerSeen) -> bool {
    let views = shared.views.all();
    let view = views.iter().find(|v| v.pod.uid() == seen.pod_uid);
    let policy = view.and_then(|v| v.pod.container(&seen.name)?.termination_message_policy.clone());
    policy.as_deref() == Some("FallbackToLogsOnError")
}

/// The last lines of a log without their stamps, at most 2 KiB and 80 lines.
async fn log_tail(path: &str) -> String {
    let bytes = tokio::fs::read(path).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().take(80).filter_map(|l| l.splitn(4, ' ').nth(3)).collect();
    let mut out: Vec<&str> = vec![];
    let mut size = 0;
    for line in lines {
        size += line.len() + 1;
        if size > 2048 {
            break;
        }
        out.push(line);
    }
    out.reverse();
    out.join("\n")
}
