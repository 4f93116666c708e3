//! What a member does unasked, every few seconds: the leader proposes compactions and expiries that pure decisions call
//! for, and every member writes a snapshot when its log has grown.

use super::propose::{ProposeError, Proposer};
use super::{Handle, quota};
use crate::api::Txn;
use crate::mvcc::{Caps, Command, Compact, Mvcc, Retention, compaction, expired, surplus};
use crate::offload::offload;
use crate::plant::{Plant, planted};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(5);
/// How late a lease may be revoked (etcd looks as often).
const LEASES_EVERY: Duration = Duration::from_millis(500);
/// Revocations in one entry: each may delete many keys.
const REVOKE_MOST: usize = 100;
/// The log that a restart may have to apply again: this, or as much as the snapshot itself.
const LOG_BYTES: u64 = 64 << 20;
/// Deletions of expired or surplus keys in one round; the rest follows in the next.
const DELETE_MOST: usize = 50_000;
/// Of these in one log entry.
const DELETE_EACH: usize = 1_000;
/// Looking for expired keys visits all keys, so it is not done every round.
const EXPIRE_ROUNDS: u32 = 6;
/// A compaction of fewer revisions than this waits for `PATIENT_ROUNDS`, so that a quiet store stays quiet.
const COMPACT_LEAST: u64 = 500;
const PATIENT_ROUNDS: u32 = 24;

/// Revokes leases that have run out, while this member leads.
pub async fn revoke_expired(handle: Handle, proposer: Proposer, cancel: CancellationToken) {
    let mut timer = tokio::time::interval(LEASES_EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            _ = timer.tick() => {}
        }
        if handle.check_disk().is_err() {
            continue;
        }
        // Looked at again for every entry: a number may have been granted anew meanwhile.
        loop {
            let expired = handle.expired_leases();
            if expired.is_empty() {
                break;
            }
            let revoke = expired.iter().take(REVOKE_MOST).map(|id| Command::Revoke { id: *id }).collect();
            // A leader that is deposed meanwhile does not hand them on: the next one counts for itself.
            let revoked = if planted(Plant::DeposedExpiry) {
                proposer.propose(revoke).await.map_err(ProposeError::Store)
            } else {
                handle.settle_taken(handle.take(revoke).await).await
            };
            match revoked {
                Ok(_) => {}
                Err(ProposeError::NotLeader(_)) => break,
                Err(ProposeError::Store(error)) => {
                    tracing::warn!(%error, "leases that ran out were not revoked");
                    break;
                }
            }
        }
    }
}

pub async fn run(
    handle: Handle,
    proposer: Proposer,
    ttl: Option<Duration>,
    caps: Option<Caps>,
    cancel: CancellationToken,
) {
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut small_rounds = 0;
    let mut round = 0u32;
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            _ = timer.tick() => {}
        }
        if let Some(now_ms) = handle.leader_time().filter(|_| handle.check_disk().is_ok()) {
            handle.finish_change().await;
            compact(&handle, &proposer, now_ms, &handle.retention, &mut small_rounds).await;
            clear_alarms(&handle, &proposer).await;
            if let Some(ttl) = ttl.filter(|_| round.is_multiple_of(EXPIRE_ROUNDS)) {
                let ttl_ms = ttl.as_millis() as u64;
                delete(&handle, &proposer, move |view| expired(view, now_ms, ttl_ms, DELETE_MOST)).await;
            }
            if let Some(caps) = caps {
                let dropped = delete(&handle, &proposer, move |view| surplus(view, &caps, DELETE_MOST)).await;
                handle.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
            }
        }
        snapshot(&handle).await;
        round = round.wrapping_add(1);
    }
}

async fn compact(handle: &Handle, proposer: &Proposer, now_ms: u64, retention: &Retention, small_rounds: &mut u32) {
    loop {
        let due = handle.hub.look(|state| {
            compaction(state, now_ms, retention).map(|revision| (revision, revision.0 - state.oldest().0))
        });
        let Some((revision, drops)) = due else { return };
        let few = drops < COMPACT_LEAST;
        if few && *small_rounds < PATIENT_ROUNDS {
            *small_rounds += 1;
            return;
        }
        *small_rounds = 0;
        let compact = Command::Compact(Compact { revision, check: None });
        if let Err(error) = proposer.propose(vec![compact]).await {
            tracing::warn!(%error, "history was not compacted");
            return;
        }
        if few {
            return;
        }
    }
}

async fn clear_alarms(handle: &Handle, proposer: &Proposer) {
    let clear = handle.hub.look(|state| quota::clear(state, handle.quota_bytes));
    if !clear.is_empty()
        && let Err(error) = proposer.propose(clear).await
    {
        tracing::warn!(%error, "the alarm that there is no space was not cleared");
    }
}

/// Deletes what `find` finds to be due, and says how many keys went; others may have been quicker.
async fn delete(handle: &Handle, proposer: &Proposer, find: impl FnOnce(&Mvcc) -> Vec<Txn> + Send + 'static) -> u64 {
    let view = handle.hub.view();
    let Ok(due) = offload(move || find(&view)).await else { return 0 };
    let mut due = due.into_iter().map(Command::Txn).peekable();
    let mut deleted = 0;
    while due.peek().is_some() {
        match proposer.propose(due.by_ref().take(DELETE_EACH).collect()).await {
            Ok(replies) => {
                let succeeded =
                    replies.into_iter().filter_map(|reply| reply.into_txn().ok()).filter(|txn| txn.succeeded);
                deleted += succeeded.count() as u64;
            }
            Err(error) => {
                tracing::warn!(%error, "keys that are due were not deleted");
                return deleted;
            }
        }
    }
    deleted
}

async fn snapshot(handle: &Handle) {
    let (index, bytes) = handle.snapshots.current().unwrap_or_default();
    if handle.wal.bytes_after(index) < LOG_BYTES.max(bytes) {
        return;
    }
    if let Err(error) = handle.raft.trigger().snapshot().await {
        tracing::warn!(%error, "no snapshot could be started");
    }
}
