//! The runtime of one pod, in memory: a sandbox and the runs of its containers. Decides nothing but what a real one would show.

use gantry_apimachinery::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::api::Pod;
use crate::api::status::ContainerStatus;
use crate::pod::{Now, PodSeen};
use crate::runtime::{ContainerSeen, RunState, SandboxSeen};

#[derive(Debug)]
pub struct Run {
    pub name: String,
    pub id: String,
    pub attempt: u32,
    pub started: Timestamp,
    pub started_ms: u64,
    /// When it will end.
    pub ends_ms: Option<u64>,
    pub of_init: bool,
    pub stopping: bool,
    /// It was given time to end by itself.
    gently: bool,
    ended: Option<(Timestamp, i32)>,
}

impl Run {
    pub fn state(&self) -> RunState {
        if self.ended.is_some() { RunState::Exited } else { RunState::Running }
    }
}

#[derive(Debug)]
struct Sandbox {
    id: String,
    attempt: u32,
    ready: bool,
}

#[derive(Debug)]
pub struct Runtime {
    ip: String,
    sandbox: Option<Sandbox>,
    runs: Vec<Run>,
}

/// As long as those of a real runtime.
fn id(pod: &Pod, what: &str, attempt: u32) -> String {
    let digest = Sha256::digest(format!("{}/{what}/{attempt}", pod.uid()));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `hollow://id` to the plain id.
fn plain(id: &str) -> String {
    id.rsplit("://").next().unwrap_or_default().to_owned()
}

impl Runtime {
    /// A runtime outlives its agent: what the API shows as running runs on. A pod that has ended has nothing left.
    pub fn remembered(pod: &Pod, ip: String, now: Now) -> Self {
        let known = pod.status.pod_ip.clone().filter(|ip| !ip.is_empty());
        let mut runtime = Self { ip: known.unwrap_or(ip), sandbox: None, runs: vec![] };
        if pod.is_terminal() {
            return runtime;
        }
        let all = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
        runtime.runs = all.filter_map(|status| remembered(status, now)).collect();
        if !runtime.runs.is_empty() {
            runtime.sandbox = Some(Sandbox { id: id(pod, "", 0), attempt: 0, ready: true });
        }
        runtime
    }

    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.runs.iter_mut()
    }

    pub fn ran(&self, name: &str) -> bool {
        self.runs.iter().any(|run| run.name == name)
    }

    pub fn next_end_ms(&self) -> Option<u64> {
        self.runs.iter().filter_map(|run| run.ends_ms).min()
    }

    /// Ends one whose time has come: its place.
    pub fn end_due(&mut self, now: Now, exit_code: i32) -> Option<usize> {
        let at = self.runs.iter().position(|run| run.ends_ms.is_some_and(|at_ms| at_ms <= now.boot_ms))?;
        let run = &mut self.runs[at];
        let code = match (run.stopping, run.gently, run.of_init) {
            (true, true, _) => 143,
            (true, false, _) => 137,
            (false, _, true) => 0,
            (false, _, false) => exit_code,
        };
        run.ends_ms = None;
        run.ended = Some((now.wall, code));
        Some(at)
    }

    pub fn was_stopped(&self, at: usize) -> bool {
        self.runs[at].stopping
    }

    pub fn run_sandbox(&mut self, pod: &Pod, attempt: u32) -> SandboxSeen {
        self.sandbox = Some(Sandbox { id: id(pod, "", attempt), attempt, ready: true });
        self.seen_sandbox(pod).expect("there is one now")
    }

    /// What still runs in it dies.
    pub fn stop_sandbox(&mut self, now: Now) {
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.ready = false;
        }
        for run in self.runs.iter_mut().filter(|run| run.ended.is_none()) {
            run.ends_ms = None;
            run.ended = Some((now.wall, 137));
        }
    }

    pub fn drop_sandbox(&mut self, id: &str) {
        if self.sandbox.as_ref().is_some_and(|sandbox| sandbox.id == id) {
            self.clear();
        }
    }

    pub fn drop_container(&mut self, id: &str) {
        self.runs.retain(|run| run.id != id);
    }

    pub fn clear(&mut self) {
        self.sandbox = None;
        self.runs.clear();
    }

    pub fn start(&mut self, pod: &Pod, name: &str, attempt: u32, now: Now) -> String {
        let id = id(pod, name, attempt);
        self.runs.push(Run {
            name: name.to_owned(),
            id: id.clone(),
            attempt,
            started: now.wall,
            started_ms: now.boot_ms,
            ends_ms: None,
            of_init: false,
            stopping: false,
            gently: false,
            ended: None,
        });
        id
    }

    /// It will end by then; false where nothing of this id runs.
    pub fn stop(&mut self, id: &str, by_ms: u64, gently: bool) -> bool {
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id && run.ended.is_none()) else { return false };
        run.ends_ms = Some(run.ends_ms.filter(|_| run.stopping).map_or(by_ms, |before_ms| before_ms.min(by_ms)));
        run.gently = gently;
        run.stopping = true;
        true
    }

    fn seen_sandbox(&self, pod: &Pod) -> Option<SandboxSeen> {
        let sandbox = self.sandbox.as_ref()?;
        Some(SandboxSeen {
            id: sandbox.id.clone(),
            pod_uid: pod.uid().to_owned(),
            attempt: sandbox.attempt,
            ready: sandbox.ready,
            ips: if pod.spec.host_network { vec![] } else { vec![self.ip.clone()] },
            ..SandboxSeen::default()
        })
    }

    pub fn seen_container(&self, pod: &Pod, at: usize) -> ContainerSeen {
        let run = &self.runs[at];
        let image = pod.container(&run.name).map(|c| c.image.clone()).unwrap_or_default();
        let reason = run.ended.map_or("", |(_, code)| if code == 0 { "Completed" } else { "Error" });
        ContainerSeen {
            id: run.id.clone(),
            pod_uid: pod.uid().to_owned(),
            name: run.name.clone(),
            attempt: run.attempt,
            state: run.state(),
            image_id: format!("{image}@sha256:0"),
            image,
            started_at: Some(run.started),
            finished_at: run.ended.map(|(at, _)| at),
            exit_code: run.ended.map_or(0, |(_, code)| code),
            reason: reason.to_owned(),
            ..ContainerSeen::default()
        }
    }

    pub fn seen(&self, pod: &Pod, now: Now) -> PodSeen {
        PodSeen {
            taken_ms: now.boot_ms,
            sandboxes: self.seen_sandbox(pod).into_iter().collect(),
            containers: (0..self.runs.len()).map(|at| self.seen_container(pod, at)).collect(),
        }
    }
}

fn remembered(status: &ContainerStatus, now: Now) -> Option<Run> {
    let id = plain(status.container_id.as_ref()?);
    let (started, ended) = match (&status.state.running, &status.state.terminated) {
        (Some(running), _) => (running.started_at, None),
        (None, Some(end)) => (end.started_at, Some((end.finished_at.unwrap_or(now.wall), end.exit_code))),
        (None, None) => return None,
    };
    let started = started.unwrap_or(now.wall);
    Some(Run {
        name: status.name.clone(),
        id,
        attempt: status.restart_count,
        started,
        started_ms: now.boot_at(started),
        ends_ms: None,
        of_init: false,
        stopping: false,
        gently: false,
        ended,
    })
}
