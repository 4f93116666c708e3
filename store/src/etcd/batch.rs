//! Many independent transactions in one call, beside etcd's interface: a call for each costs more than what it does. It decides how
//! a batch is written and how large one may be; what its transactions do is decided where single ones are.

use super::errors::status;
use super::{Face, errors};
use crate::api::{Store, StoreError, Txn, TxnReply};
use crate::codec::{self, DecodeError, Reader};
use crate::limits;
use crate::mvcc::Reply;
use crate::proto::TxnBatch;
use crate::proto::batch_client::BatchClient;
use crate::proto::batch_server::Batch;
use crate::reply;
use bytes::Bytes;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

pub use crate::proto::batch_server::SERVICE_NAME;

/// Of the bodies.
const VERSION: u32 = 1;
/// Transactions of one call; a call ends also with the one that makes it larger than this.
const MOST: usize = 1_024;
const BYTES: usize = 8 << 20;
/// What is not even decoded.
pub const MAX_MESSAGE: usize = BYTES + limits::MAX_TXN_BYTES + (1 << 20);

pub type Replies = Vec<Result<TxnReply, StoreError>>;

/// How many of the first go in one call: at least one, if there is any.
pub fn fitting<'a>(txns: impl Iterator<Item = &'a Txn>) -> usize {
    let (mut bytes, mut count) = (0, 0);
    for txn in txns.take(MOST) {
        (bytes, count) = (bytes + limits::size(txn), count + 1);
        if bytes > BYTES {
            break;
        }
    }
    count
}

pub fn put(txns: &[Txn]) -> TxnBatch {
    let mut body = Vec::with_capacity(txns.iter().map(limits::size).sum());
    codec::put_txns(&mut body, txns);
    TxnBatch { version: VERSION, body: body.into() }
}

/// `None`: the member does not know batches, or not such.
pub async fn send(member: Channel, message: TxnBatch) -> Result<Response<Option<TxnBatch>>, Status> {
    let client = BatchClient::new(member);
    let answer = client.max_decoding_message_size(usize::MAX).max_encoding_message_size(MAX_MESSAGE).txn(message).await;
    match answer {
        Err(status) if status.code() == Code::Unimplemented => Ok(Response::new(None)),
        answer => answer.map(|answer| answer.map(Some)),
    }
}

/// The answer to so many transactions. One that cannot be read leaves their outcome unknown.
pub fn replies(answer: TxnBatch, count: usize) -> Result<Replies, StoreError> {
    let unknown = |error: DecodeError| StoreError::Unknown(format!("the answer to a batch cannot be decoded: {error}"));
    let replies = reply::replies(&mut Reader::new(answer.body)).map_err(unknown)?;
    if answer.version != VERSION || replies.len() != count {
        return Err(StoreError::Unknown("the answer to a batch is for another one".into()));
    }
    Ok(replies.into_iter().map(Reply::into_txn).collect())
}

fn read(body: &Bytes) -> Result<Vec<Txn>, DecodeError> {
    // Bytes of their own: the log remembers them for longer than the network's buffer should live.
    let mut reader = Reader::new(Bytes::copy_from_slice(body));
    let txns = codec::txns(&mut reader)?;
    reader.end()?;
    Ok(txns)
}

#[tonic::async_trait]
impl Batch for Face {
    async fn txn(&self, request: Request<TxnBatch>) -> Result<Response<TxnBatch>, Status> {
        let TxnBatch { version, body } = request.into_inner();
        if version != VERSION {
            return Err(Status::unimplemented(format!("batches of version {version}")));
        }
        let txns = read(&body).map_err(|error| Status::invalid_argument(format!("a batch: {error}")))?;
        if txns.len() > MOST {
            return Err(errors::plain((Code::InvalidArgument, "a batch has too many transactions")));
        }
        self.check_decides()?;
        let replies = self.store.txn_batch(txns).await.map_err(status)?;
        let replies: Vec<Reply> =
            replies.into_iter().map(|reply| reply.map_or_else(Reply::Refused, Reply::Txn)).collect();
        let mut body = Vec::new();
        reply::put_replies(&mut body, &replies);
        Ok(Response::new(TxnBatch { version: VERSION, body: body.into() }))
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
