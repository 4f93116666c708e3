//! Writes: whatever waits is put into one log entry, entries follow each other without waiting, and a follower passes
//! them on to the leader. A write whose fate is not certain is reported as unknown, never repeated.

use super::{Handle, PATIENCE, RETRY, quota};
use crate::api::StoreError;
use crate::counts::Counts;
use crate::hub;
use crate::limits;
use crate::mvcc::{Command, Entry, Mvcc, Reply};
use crate::peer::{ForwardError, Forwarder};
use crate::raft::types::{Proposal, TypeConfig};
use openraft::errors::{ClientWriteError, Fatal};
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Requests that wait to be put into an entry. A full queue makes callers wait.
const QUEUE: usize = 4_096;
const ENTRY_COMMANDS: usize = 1_024;
const ENTRY_BYTES: usize = 4 << 20;
/// Entries on their way at once: while one is made durable, another gathers what comes meanwhile. More would make entries,
/// and with them rounds of fdatasync, of few commands each.
const IN_FLIGHT: usize = 2;

/// How long a leader that leads no more may take to tell what became of the writes that it was sent: if it lives, it hears of
/// its successor at once.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why commands were not carried out.
#[derive(Debug)]
pub enum ProposeError {
    /// Certainly not done; the leader, if known.
    NotLeader(Option<u64>),
    Store(StoreError),
}

type Outcome = Result<Vec<Reply>, StoreError>;

struct Request {
    commands: Vec<Command>,
    bytes: usize,
    reply: oneshot::Sender<Outcome>,
}

#[derive(Clone)]
pub struct Proposer {
    requests: mpsc::Sender<Request>,
    handle: Handle,
    cancel: CancellationToken,
}

impl Proposer {
    pub fn start(handle: Handle, cancel: CancellationToken) -> Self {
        let (requests, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(run(handle.clone(), receiver, cancel.clone()));
        Self { requests, handle, cancel }
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Carries out commands, next to whatever others wait. One reply each, in order.
    pub async fn propose(&self, commands: Vec<Command>) -> Outcome {
        self.handle.check_disk()?;
        let (commands, refusals) = self.handle.sift(commands);
        if commands.is_empty() {
            return Ok(refusals.merge(Vec::new()));
        }
        let bytes = commands.iter().map(size).sum();
        let (reply, outcome) = oneshot::channel();
        let stopped = || StoreError::Unavailable("the store is stopping".into());
        // What comes after the stop was certainly not done, also while the task that takes requests still ends.
        if self.cancel.is_cancelled() {
            return Err(stopped());
        }
        self.requests.send(Request { commands, bytes, reply }).await.map_err(|_| stopped())?;
        let replies =
            outcome.await.map_err(|_| StoreError::Unknown("the store stopped before it answered".into()))??;
        Ok(refusals.merge(replies))
    }
}

fn size(command: &Command) -> usize {
    match command {
        Command::Txn(txn) => limits::size(txn),
        Command::Compact(_) | Command::Grant { .. } | Command::Revoke { .. } | Command::Alarm { .. } => 32,
        Command::Found(_) => 64,
    }
}

async fn run(handle: Handle, mut requests: mpsc::Receiver<Request>, cancel: CancellationToken) {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    let forwarder = Arc::new(Forwarder::new(handle.peers.clone()));
    let mut held: Option<Request> = None;
    loop {
        let permit = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            permit = in_flight.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
        };
        let first = match held.take() {
            Some(request) => request,
            None => tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                request = requests.recv() => match request { Some(request) => request, None => return },
            },
        };
        let batch;
        (batch, held) = gather(first, &mut requests);
        dispatch(&handle, &forwarder, batch, permit).await;
    }
}

/// Takes what waits, up to an entry's size; the one that does not fit any more comes back.
fn gather(first: Request, requests: &mut mpsc::Receiver<Request>) -> (Vec<Request>, Option<Request>) {
    let mut commands = first.commands.len();
    let mut bytes = first.bytes;
    let mut batch = vec![first];
    while commands < ENTRY_COMMANDS
        && let Ok(next) = requests.try_recv()
    {
        if bytes + next.bytes > ENTRY_BYTES {
            return (batch, Some(next));
        }
        commands += next.commands.len();
        bytes += next.bytes;
        batch.push(next);
    }
    (batch, None)
}

/// Sends a batch on its way, in order, and lets a task wait for it.
async fn dispatch(handle: &Handle, forwarder: &Arc<Forwarder>, mut batch: Vec<Request>, permit: OwnedSemaphorePermit) {
    let counts: Vec<usize> = batch.iter().map(|request| request.commands.len()).collect();
    let commands: Vec<Command> = batch.iter_mut().flat_map(|request| std::mem::take(&mut request.commands)).collect();
    let replies: Vec<_> = batch.into_iter().map(|request| request.reply).collect();
    // The entry is shared with the log; only a batch that has to be sent elsewhere is encoded.
    let submitted = handle.submit(commands).await;
    let (handle, forwarder) = (handle.clone(), forwarder.clone());
    Counts::one_more(&handle.counts.proposed);
    Counts::one_more(&handle.counts.pending);
    tokio::spawn(async move {
        let outcome = handle.finish(submitted, &forwarder, permit).await;
        handle.counts.pending.fetch_sub(1, Ordering::Relaxed);
        if outcome.is_err() {
            Counts::one_more(&handle.counts.failed);
        }
        answer(outcome, &counts, replies);
    });
}

fn answer(outcome: Outcome, counts: &[usize], replies: Vec<oneshot::Sender<Outcome>>) {
    let mut all = outcome.map(|replies| replies.into_iter());
    for (count, reply) in counts.iter().zip(replies) {
        let part = match &mut all {
            Ok(all) => Ok(all.by_ref().take(*count).collect()),
            Err(error) => Err(error.clone()),
        };
        // A caller that went away does not need its answer.
        let _ = reply.send(part);
    }
}

/// An entry that was handed to Raft here.
pub struct Submitted {
    entry: Arc<Entry>,
    pending: Result<
        openraft::type_config::alias::OneshotReceiverOf<TypeConfig, ClientWriteResult<TypeConfig>>,
        Fatal<TypeConfig>,
    >,
}

/// A follower's batch: what was handed to Raft of it, and what was refused before.
pub struct Taken {
    submitted: Option<Submitted>,
    refusals: quota::Refusals,
}

impl Handle {
    fn store_time(&self) -> u64 {
        self.clock.now_ms(self.term(), || self.hub.look(Mvcc::time_ms))
    }

    /// Store time, if this member leads.
    pub fn leader_time(&self) -> Option<u64> {
        self.is_leader().then(|| self.store_time())
    }

    async fn submit(&self, mut commands: Vec<Command>) -> Submitted {
        if self.raft.is_leader() {
            self.sign(&mut commands);
        }
        let entry = Arc::new(Entry { time_ms: self.leader_time().unwrap_or(0), commands });
        self.submit_entry(entry).await
    }

    /// Puts this member's hash into every compaction, whoever asked for it: those that differ stop.
    fn sign(&self, commands: &mut [Command]) {
        for command in commands {
            if let Command::Compact(compact) = command {
                compact.check = self.hub.look(|state| {
                    let newest = state.revision();
                    state.commit(newest.0).map(|commit| (newest, commit.hash))
                });
            }
        }
    }

    async fn submit_entry(&self, entry: Arc<Entry>) -> Submitted {
        if self.is_leader()
            && let Some(alarm) =
                self.hub.look(|state| quota::raise(state, self.quota_bytes, self.member, &entry.commands))
        {
            // Before the entry in the log, so that every member refuses what is too much.
            let alarm = Arc::new(Entry { time_ms: entry.time_ms, commands: vec![alarm] });
            if let Err(error) = self.raft.client_write_ff(Proposal(alarm), None).await {
                tracing::debug!(%error, "Raft takes no alarm");
            }
        }
        let (responder, pending) = ProgressResponder::complete_only();
        let sent = self.raft.client_write_ff(Proposal(entry.clone()), Some(responder)).await;
        Submitted { entry, pending: sent.map(|()| pending) }
    }

    async fn settle(&self, pending: Submitted) -> Result<Vec<Reply>, ProposeError> {
        let store = |error| Err(ProposeError::Store(error));
        let pending = match pending.pending {
            Ok(pending) => pending,
            Err(fatal) => return store(StoreError::Unavailable(fatal.to_string())),
        };
        // What waits for a majority, or for space on the disk, may still be done later.
        let late = |_| ProposeError::Store(StoreError::Unknown("the write was not agreed on in time".into()));
        match tokio::time::timeout(PATIENCE, pending).await.map_err(late)? {
            Ok(Ok(response)) => Ok(hub::replies(response.data).await),
            Ok(Err(ClientWriteError::ForwardToLeader(to))) => Err(ProposeError::NotLeader(to.leader_id)),
            Ok(Err(error)) => store(StoreError::Unknown(error.to_string())),
            Err(_) => store(StoreError::Unknown("Raft stopped before it answered".into())),
        }
    }

    /// Hands on to Raft what a follower passed on.
    pub async fn take(&self, commands: Vec<Command>) -> Result<Taken, ProposeError> {
        self.check_disk().map_err(ProposeError::Store)?;
        let (commands, refusals) = self.sift(commands);
        let submitted = if commands.is_empty() { None } else { Some(self.submit(commands).await) };
        Ok(Taken { submitted, refusals })
    }

    pub async fn settle_taken(&self, taken: Result<Taken, ProposeError>) -> Result<Vec<Reply>, ProposeError> {
        let Taken { submitted, refusals } = taken?;
        let replies = match submitted {
            Some(submitted) => self.settle(submitted).await?,
            None => Vec::new(),
        };
        Ok(refusals.merge(replies))
    }

    /// Sees an entry through: here if this member leads, otherwise with whoever does, until patience ends.
    /// The permit is given back when it ends, or when all that is left to do is to hear of a leader that leads no more.
    async fn finish(&self, mut submitted: Submitted, forwarder: &Forwarder, permit: OwnedSemaphorePermit) -> Outcome {
        let mut permit = Some(permit);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut last = StoreError::Unavailable("no leader".into());
        loop {
            let entry = submitted.entry.clone();
            let leader = match self.settle(submitted).await {
                Ok(replies) => return Ok(replies),
                Err(ProposeError::Store(error)) => return Err(error),
                Err(ProposeError::NotLeader(leader)) => leader,
            };
            if let Some(leader) = leader.filter(|leader| *leader != self.member) {
                match self.pass_on(forwarder, leader, &entry, &mut permit).await {
                    Ok(replies) => return Ok(replies),
                    // It is about to hand on the lead.
                    Err(ForwardError::Store(full @ StoreError::DiskFull { .. })) => last = full,
                    Err(ForwardError::Store(error)) => return Err(error),
                    Err(ForwardError::Unknown(error)) => return Err(StoreError::Unknown(error)),
                    Err(ForwardError::NotLeader) => {}
                    Err(ForwardError::Unreachable(error)) => {
                        tracing::debug!(leader, error, "the leader is unreachable")
                    }
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(last);
            }
            // A leader is being elected: certainly not done, so trying again is safe.
            tokio::time::sleep(RETRY).await;
            submitted = self.submit_entry(entry).await;
        }
    }

    async fn pass_on(
        &self,
        forwarder: &Forwarder,
        leader: u64,
        entry: &Entry,
        permit: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<Reply>, ForwardError> {
        let way = forwarder.way(leader, self.term());
        let mut asked = std::pin::pin!(forwarder.propose(&way, entry));
        let answered = tokio::select! {
            biased;
            answer = &mut asked => Some(answer),
            () = self.deposed(leader) => None,
        };
        let answer = match answered {
            Some(answer) => answer,
            None => {
                drop(permit.take());
                match tokio::time::timeout(LAST_WORDS, &mut asked).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        way.end();
                        asked.await
                    }
                }
            }
        };
        let replies = answer?;
        let newest = replies.iter().filter_map(|reply| match reply {
            Reply::Txn(txn) => Some(txn.revision),
            Reply::Done(revision) => Some(*revision),
            Reply::Refused(_) => None,
        });
        if let Some(newest) = newest.max()
            && tokio::time::timeout(PATIENCE, self.hub.reached(newest)).await.is_err()
        {
            return Err(ForwardError::Unknown("the write is done, but this member does not hear of it".into()));
        }
        Ok(replies)
    }
}
