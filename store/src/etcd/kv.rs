//! The KV service.

use super::errors::{self, status};
use super::{BOUNDED, Face, convert};
use crate::api::{Op, OpReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply};
use crate::limits;
use crate::proto::etcd::{self, kv_server::Kv};
use prost::Message;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// etcd's `--max-request-bytes`.
pub const MAX_REQUEST_BYTES: usize = limits::MAX_VALUE_BYTES;
/// What is not even decoded, which would take many times its length (etcd's bound).
pub const MAX_MESSAGE: usize = MAX_REQUEST_BYTES + (512 << 10);

fn check_size(request: &impl Message) -> Result<(), Status> {
    let size = request.encoded_len();
    if size > MAX_REQUEST_BYTES {
        return Err(status(StoreError::TooLarge { what: "the request", size, limit: MAX_REQUEST_BYTES }));
    }
    Ok(())
}

impl Face {
    /// Refuses what a learner does not do: all but reads that may be old (etcd's rule).
    pub(super) fn check_decides(&self) -> Result<(), Status> {
        if self.handle.is_learner() { Err(errors::learner()) } else { Ok(()) }
    }

    /// Carries out one operation.
    async fn one(&self, op: Op) -> Result<(Revision, OpReply), Status> {
        let txn = Txn { success: vec![op], ..Txn::default() };
        let TxnReply { revision, ops, .. } = self.store.txn(txn).await.map_err(status)?;
        let missing = || status(StoreError::Unknown("the reply is missing".into()));
        Ok((revision, ops.into_iter().next().ok_or_else(missing)?))
    }
}

#[tonic::async_trait]
impl Kv for Face {
    async fn range(&self, request: Request<etcd::RangeRequest>) -> Answer<etcd::RangeResponse> {
        let whole = !request.metadata().contains_key(BOUNDED);
        let range = convert::range(request.into_inner())?;
        if !range.serializable {
            self.check_decides()?;
        }
        let reply = self.store.range(RangeRequest { whole, ..range }).await.map_err(status)?;
        let header = self.header(reply.revision);
        Ok(Response::new(convert::put_range_reply(header, reply)))
    }

    async fn put(&self, request: Request<etcd::PutRequest>) -> Answer<etcd::PutResponse> {
        let request = request.into_inner();
        check_size(&request)?;
        self.check_decides()?;
        let (revision, reply) = self.one(Op::Put(convert::put(request)?)).await?;
        let prev = if let OpReply::Put { prev } = reply { prev } else { None };
        let header = self.header(revision);
        Ok(Response::new(etcd::PutResponse { header, prev_kv: prev.map(convert::put_kv) }))
    }

    async fn delete_range(&self, request: Request<etcd::DeleteRangeRequest>) -> Answer<etcd::DeleteRangeResponse> {
        let request = request.into_inner();
        check_size(&request)?;
        self.check_decides()?;
        let (revision, reply) = self.one(Op::Delete(convert::delete(request)?)).await?;
        let (deleted, prev) = if let OpReply::Delete { deleted, prev } = reply { (deleted, prev) } else { (0, vec![]) };
        Ok(Response::new(convert::put_delete_reply(self.header(revision), deleted, prev)))
    }

    async fn txn(&self, request: Request<etcd::TxnRequest>) -> Answer<etcd::TxnResponse> {
        let request = request.into_inner();
        check_size(&request)?;
        self.check_decides()?;
        let reply = self.store.txn(convert::txn(request)?).await.map_err(status)?;
        let header = self.header(reply.revision);
        Ok(Response::new(convert::put_txn_reply(header, reply)))
    }

    async fn compact(&self, request: Request<etcd::CompactionRequest>) -> Answer<etcd::CompactionResponse> {
        self.check_decides()?;
        let revision = Revision(u64::try_from(request.into_inner().revision).unwrap_or(0));
        self.store.compact(revision).await.map_err(status)?;
        Ok(Response::new(etcd::CompactionResponse { header: self.header_now() }))
    }
}
