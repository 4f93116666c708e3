//! One member of one group: opens its log and snapshots, runs Raft, and is the `Store` of this process.
//!
//! What an entry does is `mvcc`'s decision, who leads is Raft's; here they are only put together.

mod admission;
#[cfg(test)]
mod admission_tests;
mod attic;
#[cfg(test)]
mod attic_tests;
mod belonging;
mod clock;
mod config;
mod ending;
mod greet;
mod ground;
mod identity;
mod kept;
mod leader;
#[cfg(test)]
mod leader_tests;
mod lessor;
#[cfg(test)]
mod member_tests;
mod members;
mod metrics;
mod news;
mod propose;
mod quota;
mod read;
mod room;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
pub mod tests;
mod upkeep;
#[cfg(test)]
mod upkeep_tests;

use crate::api::{RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchRequest};
use crate::counts::Counts;
use crate::etcd::EtcdServices;
use crate::hub::{Hub, HubStats};
use crate::limits;
use crate::mvcc::{Command, Compact, Mvcc, Reply, Retention};
use crate::offload::offload;
use crate::peer::{Factory, MAX_MESSAGE, PeerService, Peers, Services, StoreTls, TlsError, serve};
use crate::proto::peer_server::PeerServer;
use crate::raft::log::Log;
use crate::raft::machine::{Machine, Snapshots};
use crate::raft::roster::Roster;
use crate::raft::snapshot::{SnapshotDir, SnapshotError};
use crate::raft::types::TypeConfig;
use crate::wal::{OpenError, REBUILD, Wal, WalConfig};
use clock::StoreClock;
use greet::Part;
#[cfg(not(test))]
use identity::Record;
#[cfg(not(test))]
use kept::Kept;
use lessor::Lessor;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use openraft::impls::BasicNode;
use openraft::{Raft, RaftMetrics};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use admission::{Greeting, Refusal, Welcome};
pub use attic::Attic;
pub use config::GroupConfig;
pub use ending::Ended;
pub use ground::Ground;
#[cfg(test)]
pub use identity::{EMPTY, LATER, Record};
pub use identity::{IdentityError, Owner};
#[cfg(test)]
pub use kept::Kept;
pub use lessor::Standing;
pub use members::{ChangeError, Member};
pub use metrics::{Reading, metrics_text};
pub use propose::ProposeError;
pub use read::ReadError;

/// How long a request waits for a leader before it fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries meanwhile.
const RETRY: Duration = Duration::from_millis(50);

/// Why a member cannot start. A person acts.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error("the configuration of group {group:?} is not usable: {what}")]
    Config { group: String, what: String },
    #[error("the log cannot be opened")]
    Log(#[from] OpenError),
    #[error("the snapshot cannot be used, and this member does not start without it: {REBUILD}")]
    Snapshot(#[from] SnapshotError),
    #[error(
        "{dir} lacks the snapshot that the log goes on from, after entry {after}: put it back, or {REBUILD}",
        dir = .dir.display()
    )]
    NoSnapshot { dir: PathBuf, after: u64 },
    #[error("a member's address cannot be used")]
    Address(#[from] TlsError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("Raft does not start: {0}")]
    Raft(String),
    #[error("the listener cannot be used")]
    Listen(#[source] std::io::Error),
}

/// One open member. Cheap to clone; it stops when the last clone is dropped or by [`Group::shutdown`].
#[derive(Clone)]
pub struct Group {
    handle: Handle,
    proposer: propose::Proposer,
    reader: read::Reader,
    #[allow(dead_code, reason = "held for its drop, which ends the group's tasks")]
    stop: Arc<DropGuard>,
}

/// What the parts of a running member share.
#[derive(Clone)]
pub struct Handle {
    pub raft: Raft<TypeConfig, Machine>,
    pub hub: Arc<Hub>,
    pub peers: Peers,
    pub snapshots: Snapshots,
    pub member: u64,
    pub group: Arc<str>,
    pub quota_bytes: u64,
    pub counts: Arc<Counts>,
    part: Arc<Part>,
    retention: Retention,
    wal: Wal,
    clock: Arc<StoreClock>,
    lessor: Arc<Lessor>,
    changing: Arc<tokio::sync::Mutex<()>>,
    pub heard: Arc<leader::Heard>,
    ending: ending::Ending,
}

impl Handle {
    /// Random since the group began; 0 until the first leader has said it.
    pub fn cluster(&self) -> u64 {
        self.hub.look(|state| state.identity().map_or(0, |identity| identity.cluster))
    }

    pub fn term(&self) -> u64 {
        self.wal.term()
    }

    /// What Raft says of itself; a copy, because holding the original stops Raft.
    pub fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.raft.metrics().borrow_watched().clone()
    }

    /// Takes part from now on: begins the group, or waits to be told.
    async fn begin(&self, nodes: &BTreeMap<u64, BasicNode>) -> Result<(), GroupError> {
        self.part.take().await?;
        let raft_error = |error: &dyn std::fmt::Display| GroupError::Raft(error.to_string());
        if !self.raft.is_initialized().await.map_err(|e| raft_error(&e))? {
            if self.part.me.joins {
                return Ok(());
            }
            // Every member starts with the same list, which is as good as one of them doing so. Another may have been
            // quicker and asked for this one's vote already.
            match self.raft.initialize(nodes.clone()).await {
                Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
                Err(error) => return Err(raft_error(&error)),
            }
        } else if self.voters().iter().eq([&self.member]) {
            self.raft.trigger().elect(false).await.map_err(|e| raft_error(&e))?;
        }
        Ok(())
    }

    /// Whether it may vote and take entries; see `admission`.
    pub fn takes_part(&self) -> bool {
        self.part.takes()
    }

    /// The members that decide.
    pub fn voters(&self) -> BTreeSet<u64> {
        self.metrics().membership_config.membership().voter_ids().collect()
    }

    /// Whether the log has no space on its disk.
    pub fn is_full(&self) -> bool {
        self.wal.is_full()
    }

    /// Tells whoever runs this member that it has ended by itself.
    fn end(&self, why: Ended) {
        if self.ending.tell(why.clone()) {
            tracing::error!(group = &*self.group, member = self.member, "{why}");
        }
    }

    pub fn wal_bytes_after(&self, index: u64) -> u64 {
        self.wal.bytes_after(index)
    }
}

impl Group {
    /// Opens the member. A single member leads and serves when this returns; others may still be looking for a leader.
    ///
    /// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
    pub fn open(config: GroupConfig) -> futures::future::BoxFuture<'static, Result<Self, GroupError>> {
        Self::open_on(config, Ground::machine())
    }

    pub fn open_on(
        config: GroupConfig,
        ground: Ground,
    ) -> futures::future::BoxFuture<'static, Result<Self, GroupError>> {
        Box::pin(Self::open_here(config, ground))
    }

    async fn open_here(mut config: GroupConfig, ground: Ground) -> Result<Self, GroupError> {
        config.validate(ground.simulated())?;
        let whose = ground.identity(&config).await?;
        let single = config.members.len() == 1 && !config.join;
        let handle = start_raft(&config, &ground, whose).await?;
        let cancel = CancellationToken::new();
        let proposer = propose::Proposer::start(handle.clone(), cancel.clone());
        let reader = read::Reader::start(handle.clone(), cancel.clone());
        tokio::spawn(upkeep::run(handle.clone(), proposer.clone(), config.ttl, config.caps, cancel.clone()));
        tokio::spawn(attic::run(handle.clone(), config.attic, cancel.clone()));
        tokio::spawn(news::run(handle.clone(), proposer.clone(), config.dir.clone(), cancel.clone()));
        tokio::spawn(room::run(handle.clone(), cancel.clone()));
        if !ground.simulated() && config.listener.is_some() {
            tokio::spawn(belonging::run(handle.clone(), cancel.clone()));
        }
        tokio::spawn(upkeep::revoke_expired(handle.clone(), proposer.clone(), cancel.clone()));
        let group = Self { handle, proposer, reader, stop: Arc::new(cancel.clone().drop_guard()) };
        ground.serve(&group);
        let (meets, met) = (config.listener.is_some() || ground.simulated(), cancel.clone());
        if let Some(listener) = config.listener.take() {
            group.serve(listener, config.tls.as_ref(), cancel)?;
        }
        let nodes: BTreeMap<_, _> = config.members.iter().map(|(id, a)| (*id, BasicNode::new(a))).collect();
        if group.handle.part.takes() || single {
            group.handle.begin(&nodes).await?;
        }
        if meets {
            tokio::spawn(greet::run(group.handle.clone(), nodes, met));
        }
        if single {
            group.ready(PATIENCE).await.map_err(|error| GroupError::Raft(error.to_string()))?;
        }
        Ok(group)
    }

    /// Waits until this member can answer linearizable reads.
    pub async fn ready(&self, patience: Duration) -> Result<(), StoreError> {
        let ready = async {
            while let Err(error) = self.read_revision().await {
                if !matches!(error, StoreError::Unavailable(_)) {
                    return Err(error);
                }
            }
            Ok(())
        };
        let late = |_| StoreError::Unavailable("no leader yet".into());
        tokio::time::timeout(patience, ready).await.map_err(late)?
    }

    /// Why this member never takes part with its directory, once that is known: a person acts.
    pub async fn refused(&self) -> GroupError {
        self.handle.part.refused().await.into()
    }

    fn serve(
        &self,
        listener: std::net::TcpListener,
        tls: Option<&StoreTls>,
        cancel: CancellationToken,
    ) -> Result<(), GroupError> {
        listener.set_nonblocking(true).map_err(GroupError::Listen)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(GroupError::Listen)?;
        let peer = PeerServer::new(PeerService::new(self.handle.clone()))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let store =
            Serving { proposer: self.proposer.clone(), reader: self.reader.clone(), hub: self.handle.hub.clone() };
        let etcd = EtcdServices::new(store, self.handle.clone());
        let handle = self.handle.clone();
        let metrics = Arc::new(move || metrics_text(&[handle.reading()]));
        tokio::spawn(serve(listener, tls.cloned(), Services { peer, etcd, metrics }, cancel));
        Ok(())
    }

    /// The state that this member has applied, for tests and metrics.
    pub fn applied_revision(&self) -> Revision {
        self.handle.hub.revision()
    }

    /// Random since the group began; 0 until its first leader has said it.
    pub fn cluster(&self) -> u64 {
        self.handle.cluster()
    }

    #[cfg(test)]
    pub async fn command(&self, command: Command) -> Result<Revision, StoreError> {
        let reply = self.proposer.propose(vec![command]).await?.into_iter().next();
        reply.map_or_else(|| Err(StoreError::Unknown("the reply is missing".into())), Reply::into_done)
    }

    /// This member's metrics, in Prometheus' text form.
    pub fn metrics(&self) -> String {
        metrics_text(&[self.handle.reading()])
    }

    /// The watches that this member serves.
    pub fn watch_stats(&self) -> HubStats {
        self.handle.hub.stats()
    }

    #[cfg(test)]
    pub fn raft_says(&self) -> String {
        let m = self.handle.metrics();
        let (state, term, leader) = (m.state, m.current_term, m.current_leader);
        let (log, applied, purged) = (m.last_log_index, m.last_applied.map(|id| id.index), m.purged.map(|id| id.index));
        let (running, snapshot) = (m.running_state.is_ok(), m.snapshot.map(|id| id.index));
        format!(
            "{state:?} of {term} under {leader:?}: log {log:?}, applied {applied:?}, snapshot {snapshot:?}, purged {purged:?}, running {running} {:?}",
            m.running_state
        )
    }

    #[cfg(test)]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    #[cfg(test)]
    pub fn has_snapshot(&self) -> bool {
        self.handle.snapshots.current().is_some()
    }

    #[cfg(test)]
    pub fn view(&self) -> Arc<Mvcc> {
        self.handle.hub.view()
    }

    /// The hash chain over everything this member has applied.
    pub fn hash(&self) -> u64 {
        self.handle.hub.look(Mvcc::hash)
    }

    pub fn is_leader(&self) -> bool {
        self.handle.is_leader()
    }

    /// Waits until the member ends by itself, and tells why: from then on it serves nothing, and only has to be shut down.
    pub async fn ended(&self) -> Ended {
        self.handle.ending.come().await
    }

    /// Writes a snapshot now and lets the log before it go.
    pub async fn snapshot(&self) -> Result<(), StoreError> {
        self.handle.raft.trigger().snapshot().await.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// Stops the member in an orderly way: another leads before this one ends, if one can.
    pub async fn retire(&self) {
        self.handle.hand_over().await;
        self.shutdown().await;
    }

    /// Stops the member: nothing is written or answered after this returns, and its directory can be opened again.
    pub async fn shutdown(&self) {
        self.proposer.stop();
        self.handle.wal.give_up_waiting();
        self.handle.snapshots.closed.cancel();
        if let Err(error) = self.handle.raft.shutdown().await {
            tracing::warn!(%error, "Raft did not stop cleanly");
        }
        let wal = self.handle.wal.clone();
        if let Err(error) = offload(move || wal.close()).await {
            tracing::warn!(%error, "the log was not closed");
        }
    }
}

async fn start_raft(
    config: &GroupConfig,
    ground: &Ground,
    (owner, record, kept): (Owner, Record, Kept),
) -> Result<Handle, GroupError> {
    let dir = config.dir.clone();
    let counts = Arc::new(Counts::default());
    let wal_config = WalConfig {
        linger: config.linger,
        counts: counts.clone(),
        #[cfg(test)]
        space: config.space.clone(),
        ..ground.wal.clone()
    };
    let on = ground.clone();
    let opened = offload(move || {
        // The log's lock comes first: it keeps a second process away from the snapshots, too.
        let wal = on.open_log(&dir.join("wal"), wal_config)?;
        let (snapshots, current) = SnapshotDir::open_on(on.disk.clone(), &dir.join("snapshots"))?;
        Ok::<_, GroupError>((wal, snapshots, current))
    });
    let (wal, dir, current) = opened.await.map_err(|error| GroupError::Raft(error.to_string()))??;
    let (purged, held) = (wal.ends().0, current.as_ref().and_then(|(meta, ..)| meta.last_log_id));
    if let Some(purged) = purged.filter(|purged| held < Some(*purged)) {
        return Err(GroupError::NoSnapshot { dir: config.dir.join("snapshots"), after: purged.index });
    }
    let (mvcc, current) = match current {
        Some((meta, mvcc, file)) => (mvcc, Some((meta, file))),
        None => (Mvcc::default(), None),
    };
    let hub = Hub::over(mvcc, wal.archive());
    let snapshots = Snapshots::new(dir, current);
    let roster = Roster::new(&config.members);
    let machine = Machine::new(hub.clone(), snapshots.clone(), roster.clone(), counts.clone(), config.attic.warm.least);
    let peers = ground.reach(Peers::new(&config.name, config.member, hub.clone(), config.tls.as_ref(), roster));
    let part = Arc::new(Part::new(config, (&owner, record), kept, peers.takes_part.clone()));
    for (_, address) in config.members.iter().filter(|(id, _)| **id != config.member && !ground.simulated()) {
        crate::peer::channel(address, config.tls.as_ref())?;
    }
    let factory = Factory { peers: peers.clone() };
    let raft_config = config.raft_config().map_err(|error| GroupError::Raft(error.to_string()))?;
    let raft = Raft::new(config.member, Arc::new(raft_config), factory, Log::new(wal.clone()), machine);
    let raft = raft.await.map_err(|error| GroupError::Raft(error.to_string()))?;
    let clock = Arc::new(StoreClock::default());
    Ok(Handle {
        raft,
        hub,
        peers,
        snapshots,
        member: config.member,
        group: config.name.as_str().into(),
        quota_bytes: config.quota_bytes,
        counts,
        part,
        retention: config.retention,
        wal,
        clock,
        lessor: Arc::default(),
        changing: Arc::default(),
        heard: Arc::default(),
        ending: ending::Ending::default(),
    })
}

/// The store that this member's listener offers; it does not keep the member alive.
#[derive(Clone)]
pub struct Serving {
    proposer: propose::Proposer,
    reader: read::Reader,
    hub: Arc<Hub>,
}

impl Serving {
    /// Carries out one command that has no other answer than the revision.
    pub async fn command(&self, command: Command) -> Result<Revision, StoreError> {
        let reply = self.proposer.propose(vec![command]).await?.into_iter().next();
        reply.map_or_else(|| Err(StoreError::Unknown("the reply is missing".into())), Reply::into_done)
    }

    pub async fn read_index(&self) -> Result<Revision, StoreError> {
        self.reader.read_index().await
    }
}

async fn txn_batch(
    proposer: &propose::Proposer,
    txns: Vec<Txn>,
) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
    let checks: Vec<_> = txns.iter().map(limits::check).collect();
    // One that is refused must not fail the others.
    let good = txns.into_iter().zip(&checks).filter(|(_, check)| check.is_ok()).map(|(txn, _)| Command::Txn(txn));
    let good: Vec<_> = good.collect();
    let mut replies = if good.is_empty() { Vec::new() } else { proposer.propose(good).await? }.into_iter();
    let reply = |check: Result<(), StoreError>| {
        check?;
        replies.next().map_or_else(|| Err(StoreError::Unknown("a reply is missing".into())), Reply::into_txn)
    };
    Ok(checks.into_iter().map(reply).collect())
}

macro_rules! implement_store {
    ($type:ty, $self:ident, $proposer:expr, $reader:expr, $hub:expr, $reading:expr) => {
        #[async_trait::async_trait]
        impl Store for $type {
            async fn txn(&$self, txn: Txn) -> Result<TxnReply, StoreError> {
                limits::check(&txn)?;
                if !txn.writes() {
                    $reader.read_index().await?;
                    return $hub.read(&txn).await;
                }
                let replies = $proposer.propose(vec![Command::Txn(txn)]).await?;
                let reply = replies.into_iter().next();
                reply.map_or_else(|| Err(StoreError::Unknown("the reply is missing".into())), Reply::into_txn)
            }

            async fn txn_batch(&$self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
                txn_batch(&$proposer, txns).await
            }

            async fn range(&$self, request: RangeRequest) -> Result<RangeReply, StoreError> {
                if !request.serializable {
                    $reader.read_index().await?;
                }
                $hub.range(&request).await
            }

            async fn watch(&$self, request: WatchRequest) -> Result<Watch, StoreError> {
                $hub.watch(request)
            }

            async fn read_revision(&$self) -> Result<Revision, StoreError> {
                $reader.read_index().await
            }

            async fn compact(&$self, revision: Revision) -> Result<(), StoreError> {
                let compact = Command::Compact(Compact { revision, check: None });
                $proposer.propose(vec![compact]).await?.into_iter().try_for_each(|reply| reply.into_done().map(drop))
            }

            fn reading(&$self) -> Option<Reading> {
                $reading
            }
        }
    };
}

implement_store!(Group, self, self.proposer, self.reader, self.handle.hub, Some(self.handle.reading()));
implement_store!(Serving, self, self.proposer, self.reader, self.hub, None);
