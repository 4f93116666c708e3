//! A store in memory, for other crates' tests: the same state machine and watches, no log and no Raft.

use crate::api::{RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchRequest};
use crate::hub::Hub;
use crate::limits;
use crate::mvcc::{Command, Compact, Entry, Mvcc, Reply};
use std::sync::Arc;

/// Cheap to clone; clones share one store.
#[derive(Clone)]
pub struct MemStore {
    hub: Arc<Hub>,
}

impl Default for MemStore {
    fn default() -> Self {
        Self { hub: Hub::new(Mvcc::default()) }
    }
}

impl MemStore {
    pub fn new() -> Self {
        Self::default()
    }

    fn apply(&self, commands: Vec<Command>) -> Result<Vec<Reply>, StoreError> {
        let entry = Entry { time_ms: 0, commands };
        let applied = self.hub.apply(&entry, None).map_err(|e| StoreError::Corrupt(e.to_string()))?;
        self.hub.announce();
        Ok(applied.replies)
    }
}

#[async_trait::async_trait]
impl Store for MemStore {
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        let mut replies = self.txn_batch(vec![txn]).await?;
        replies.pop().unwrap_or_else(|| Err(StoreError::Unknown("no reply".into())))
    }

    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
        for txn in &txns {
            limits::check(txn)?;
        }
        let replies = self.apply(txns.into_iter().map(Command::Txn).collect())?;
        Ok(replies.into_iter().map(Reply::into_txn).collect())
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
        self.hub.range(&request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
        self.hub.watch(request)
    }

    async fn read_revision(&self) -> Result<Revision, StoreError> {
        Ok(self.hub.revision())
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let replies = self.apply(vec![Command::Compact(Compact { revision, check: None })])?;
        replies.into_iter().try_for_each(|reply| reply.into_done().map(drop))
    }
}
