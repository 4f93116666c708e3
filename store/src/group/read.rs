//! Linearizable reads: one ReadIndex round serves everyone who waited when it began. A follower asks the leader for its
//! revision and waits until it has applied as much.

use super::clock::boottime_ms;
use super::lessor::{LEADS_FOR_MS, Moment, Standing};
use super::{Handle, PATIENCE, RETRY};
use crate::api::{LeaseId, Revision, StoreError};
use crate::peer::ForwardError;
use crate::plant::{Plant, planted};
use openraft::Instant;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::raft::ReadPolicy;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Reads that wait for a round. A full queue makes callers wait.
const QUEUE: usize = 4_096;

/// Why no read index was had.
#[derive(Debug)]
pub enum ReadError {
    NotLeader(Option<u64>),
    Store(StoreError),
}

type Waiter = oneshot::Sender<Result<Revision, StoreError>>;

#[derive(Clone)]
pub struct Reader {
    waiters: mpsc::Sender<Waiter>,
}

impl Reader {
    pub fn start(handle: Handle, cancel: CancellationToken) -> Self {
        let (waiters, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(run(handle, receiver, cancel));
        Self { waiters }
    }

    /// A revision at least as new as every write acknowledged before the call; it is applied here when this returns.
    pub async fn read_index(&self) -> Result<Revision, StoreError> {
        let stopping = || StoreError::Unavailable("the store is stopping".into());
        let (waiter, answer) = oneshot::channel();
        self.waiters.send(waiter).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}

async fn run(handle: Handle, mut waiters: mpsc::Receiver<Waiter>, cancel: CancellationToken) {
    let mut round = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            n = waiters.recv_many(&mut round, QUEUE) => if n == 0 { return },
        }
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answer = handle.read_index() => answer,
        };
        for waiter in round.drain(..) {
            // A reader that went away does not need its answer.
            let _ = waiter.send(answer.clone());
        }
    }
}

impl Handle {
    /// One round, here or with the leader.
    async fn read_index(&self) -> Result<Revision, StoreError> {
        let leader = |leader| async move {
            let revision = self.peers.read_index(leader).await?;
            self.catch_up(revision).await.map_err(ForwardError::Store)
        };
        self.ask(|| self.read_index_here(), leader).await
    }

    /// How a lease stands, after renewing it if so asked: here or with the leader.
    pub async fn lease(&self, id: LeaseId, renew: bool) -> Result<Standing, StoreError> {
        self.ask(|| self.lease_here(id, renew), |leader| self.peers.lease(leader, id, renew)).await
    }

    /// Asks here and then whoever leads, until patience ends. Only for what may be asked twice.
    async fn ask<T, H, L>(&self, here: impl Fn() -> H, leader: impl Fn(u64) -> L) -> Result<T, StoreError>
    where
        H: Future<Output = Result<T, ReadError>>,
        L: Future<Output = Result<T, ForwardError>>,
    {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let leads = match here().await {
                Ok(answer) => return Ok(answer),
                Err(ReadError::Store(StoreError::Unavailable(_))) => None,
                Err(ReadError::Store(error)) => return Err(error),
                Err(ReadError::NotLeader(leads)) => leads,
            };
            if let Some(leads) = leads.filter(|leads| *leads != self.member) {
                // A round or a renewal may be asked twice: it is not waited for from one who leads no more.
                let answer = tokio::select! {
                    biased;
                    answer = leader(leads) => answer,
                    () = self.deposed(leads) => Err(ForwardError::NotLeader),
                };
                match answer {
                    Ok(answer) => return Ok(answer),
                    // A leader that a majority does not follow any more has a successor soon.
                    Err(ForwardError::Store(StoreError::Unavailable(_))) => {}
                    Err(ForwardError::Store(error)) => return Err(error),
                    Err(ForwardError::NotLeader | ForwardError::Unreachable(_) | ForwardError::Unknown(_)) => {}
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(StoreError::Unavailable("no leader".into()));
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// How a lease stands, if this member leads.
    pub async fn lease_here(&self, id: LeaseId, renew: bool) -> Result<Standing, ReadError> {
        let planted = planted(Plant::DeposedRenewal) && self.raft.is_leader();
        if !self.leads_still() && !planted {
            return Err(ReadError::NotLeader(self.metrics().current_leader));
        }
        let look = || self.hub.look(|state| self.lessor.look(self.moment(), state, id, renew));
        if let Some(standing) = look() {
            return Ok(standing);
        }
        // It may be newer than what this member has applied, or granted by another leader: a round tells.
        self.read_index_here().await?;
        look().ok_or(ReadError::Store(StoreError::NoLease(id)))
    }

    /// Whether this member leads, a majority said so less than [`LEADS_FOR_MS`] ago, and what the leaders before it had put
    /// into the log is applied: a revocation may be among it.
    fn leads_still(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let alone = || metrics.membership_config.membership().voter_ids().eq([self.member]);
        let heard =
            || metrics.last_quorum_acked.is_some_and(|acked| acked.elapsed() < Duration::from_millis(LEADS_FOR_MS));
        let applied = metrics.last_applied.is_some_and(|id| id.leader_id.term == metrics.current_term);
        metrics.state.is_leader() && applied && (alone() || heard())
    }

    /// The leases that have run out, if this member leads.
    pub fn expired_leases(&self) -> Vec<LeaseId> {
        if !self.is_leader() {
            return Vec::new();
        }
        self.lessor.expired(self.moment(), &self.hub.view())
    }

    fn moment(&self) -> Moment {
        Moment { term: self.term(), now_ms: boottime_ms() }
    }

    async fn catch_up(&self, revision: Revision) -> Result<Revision, StoreError> {
        let late = |_| StoreError::Unavailable("this member is behind".into());
        tokio::time::timeout(PATIENCE, self.hub.reached(revision)).await.map_err(late)?;
        Ok(revision)
    }

    /// One round if this member leads.
    pub async fn read_index_here(&self) -> Result<Revision, ReadError> {
        let store = |error: &dyn std::fmt::Display| ReadError::Store(StoreError::Unavailable(error.to_string()));
        if planted(Plant::DeposedRead) && self.raft.is_leader() {
            return Ok(self.hub.revision());
        }
        let linearizer = match self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
            Ok(linearizer) => linearizer,
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                return Err(ReadError::NotLeader(to.leader_id));
            }
            Err(error) => return Err(store(&error)),
        };
        linearizer.await_ready(&self.raft).await.map_err(|error| store(&error))?;
        Ok(self.hub.revision())
    }
}
