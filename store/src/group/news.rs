//! What a member tells its person when it changes, and what follows from it: who leads, which cluster this is, which alarms
//! stand, how far history is compacted. It decides nothing but to name the cluster once, as its first leader.

use super::Handle;
use super::ending::Ended;
use super::identity::{self, Owner};
use super::metrics::LAG_BOUND_MS;
use super::propose::Proposer;
use crate::mvcc::{Alarm, Command, Identity, Mvcc};
#[cfg_attr(test, allow(unused_imports, reason = "the channel of tests has the method itself"))]
use openraft::async_runtime::watch::WatchReceiver;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Raft is heard at once; what was applied is looked at this often.
const EVERY: Duration = Duration::from_millis(500);

/// A busy group compacts every few seconds, which is told as one.
const COMPACTIONS_EVERY: Duration = Duration::from_secs(60);

/// What was told last.
#[derive(Default)]
struct Told {
    leader: Option<u64>,
    cluster: u64,
    alarms: BTreeSet<Alarm>,
    compacted: u64,
    compacted_at: Option<tokio::time::Instant>,
    late: bool,
}

pub async fn run(handle: Handle, proposer: Proposer, dir: PathBuf, cancel: CancellationToken) {
    let mut raft = handle.raft.metrics();
    let mut told = Told { compacted: handle.hub.look(Mvcc::oldest).0, ..Told::default() };
    let mut gone = false;
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        if let Some(what) = handle.stopped(&cancel, gone) {
            let (group, member) = (handle.group.to_string(), handle.member);
            handle.end(Ended::Failed { group, member, what });
        }
        if handle.ending.has_come() {
            // Nobody is answered any more, and no task tries again what cannot be done.
            return cancel.cancel();
        }
        told.leader(&handle);
        match handle.hub.look(|state| state.identity().map(|identity| identity.cluster)) {
            Some(cluster) if told.cluster != cluster => {
                if told.cluster(&handle, cluster, dir.clone()).await {
                    told.cluster = cluster;
                }
            }
            Some(_) => {}
            None => found(&handle, &proposer).await,
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            _ = timer.tick() => {
                handle.hub.look(|state| {
                    told.alarms(&handle, state);
                    told.compaction(&handle, state);
                });
                told.lag(&handle);
            }
            changed = raft.changed() => gone = changed.is_err(),
            _ = handle.ending.come() => {}
        }
    }
}

impl Handle {
    /// Why Raft does not run any more, unless it was told to stop. It says so in the last of its metrics.
    fn stopped(&self, cancel: &CancellationToken, gone: bool) -> Option<String> {
        let running = self.metrics().running_state;
        let why = running.err().map(|fatal| fatal.to_string()).or_else(|| gone.then(|| "Raft has ended".to_owned()));
        why.filter(|_| !cancel.is_cancelled())
    }
}

/// Names the cluster, if this member leads one that has no name.
async fn found(handle: &Handle, proposer: &Proposer) {
    if !handle.is_leader() {
        return;
    }
    let identity = Identity { cluster: identity::random(), group: handle.group.to_string() };
    if let Err(error) = proposer.propose(vec![Command::Found(identity)]).await {
        tracing::debug!(%error, "the cluster has no number yet");
    }
}

impl Told {
    fn leader(&mut self, handle: &Handle) {
        let metrics = handle.metrics();
        if metrics.current_leader == self.leader {
            return;
        }
        self.leader = metrics.current_leader;
        let (group, member, term) = (&*handle.group, handle.member, metrics.current_term);
        match self.leader {
            Some(leader) => {
                handle.counts.leader_changes.fetch_add(1, Ordering::Relaxed);
                tracing::info!(group, member, leader, term, "the group has a leader");
            }
            None => tracing::warn!(group, member, term, "the group has no leader"),
        }
    }

    fn alarms(&mut self, handle: &Handle, state: &Mvcc) {
        let now: BTreeSet<Alarm> = state.alarms().collect();
        let (group, bytes) = (&*handle.group, state.stored_bytes());
        for alarm in now.difference(&self.alarms) {
            let (alarm, raised_by) = (alarm.kind.name(), alarm.member);
            tracing::error!(group, alarm, raised_by, bytes, quota = handle.quota_bytes, "an alarm was raised");
        }
        for alarm in self.alarms.difference(&now) {
            tracing::info!(group, alarm = alarm.kind.name(), bytes, "an alarm was cleared");
        }
        self.alarms = now;
    }

    fn compaction(&mut self, handle: &Handle, state: &Mvcc) {
        let oldest = state.oldest().0;
        let rests = self.compacted_at.is_some_and(|at| at.elapsed() < COMPACTIONS_EVERY);
        if oldest != self.compacted && !rests {
            let (group, from, revision) = (&*handle.group, self.compacted, state.revision().0);
            let history_bytes = state.superseded_bytes();
            tracing::info!(group, from, to = oldest, revision, history_bytes, "history was compacted");
            self.compacted = oldest;
            self.compacted_at = Some(tokio::time::Instant::now());
        }
    }

    fn lag(&mut self, handle: &Handle) {
        let lag = handle.compaction_lag();
        let late = lag.ms > LAG_BOUND_MS;
        if late && !self.late {
            let (group, behind_ms, revisions) = (&*handle.group, lag.ms, lag.revisions);
            tracing::error!(group, behind_ms, revisions, "history is not compacted in time");
        }
        self.late = late;
    }

    /// Whether the directory says it now.
    async fn cluster(&self, handle: &Handle, cluster: u64, dir: PathBuf) -> bool {
        let (group, member) = (handle.group.to_string(), handle.member);
        tracing::info!(group, member, cluster = format!("{cluster:016x}"), "the member's cluster");
        // A simulation has no directories.
        #[cfg(test)]
        if crate::sim::running() {
            return true;
        }
        let write = move || Owner::change(&dir, |owner| owner.cluster = cluster);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the directory does not name its cluster yet");
                false
            }
            Err(_) => false,
        }
    }
}
