//! Offers a store over gRPC.

use super::convert;
use crate::api::{Revision, Store, StoreError, Watch};
use crate::codec::Reader;
use crate::peer::error_status;
use crate::proto::kv_server::Kv;
use crate::proto::watch_request::RequestUnion;
use crate::proto::{self, txn_result};
use crate::reply;
use futures::Stream;
use std::pin::Pin;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

pub struct KvService {
    store: Arc<dyn Store>,
}

impl KvService {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

fn status(error: StoreError) -> Status {
    error_status(&error)
}

type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Kv for KvService {
    async fn range(&self, request: Request<proto::RangeRequest>) -> Result<Response<proto::RangeResponse>, Status> {
        let reply = self.store.range(convert::range(request.into_inner())).await.map_err(status)?;
        Ok(Response::new(convert::put_range_reply(reply)))
    }

    async fn txn(&self, request: Request<proto::TxnRequest>) -> Result<Response<proto::TxnResponse>, Status> {
        let txn = convert::txn(request.into_inner()).map_err(status)?;
        let reply = self.store.txn(txn).await.map_err(status)?;
        Ok(Response::new(convert::put_txn_reply(reply)))
    }

    async fn txn_batch(
        &self,
        request: Request<proto::TxnBatchRequest>,
    ) -> Result<Response<proto::TxnBatchResponse>, Status> {
        let txns: Result<Vec<_>, _> = request.into_inner().txns.into_iter().map(convert::txn).collect();
        let replies = self.store.txn_batch(txns.map_err(status)?).await.map_err(status)?;
        let result = |reply| match reply {
            Ok(reply) => txn_result::Result::Response(convert::put_txn_reply(reply)),
            Err(error) => {
                let mut out = Vec::new();
                reply::put_error(&mut out, &error);
                txn_result::Result::Error(out.into())
            }
        };
        let results = replies.into_iter().map(|reply| proto::TxnResult { result: Some(result(reply)) }).collect();
        Ok(Response::new(proto::TxnBatchResponse { results }))
    }

    async fn compact(
        &self,
        request: Request<proto::CompactionRequest>,
    ) -> Result<Response<proto::CompactionResponse>, Status> {
        let revision = Revision(request.into_inner().revision.max(0) as u64);
        self.store.compact(revision).await.map_err(status)?;
        Ok(Response::new(proto::CompactionResponse { header: None }))
    }

    async fn read_revision(
        &self,
        _request: Request<proto::ReadRevisionRequest>,
    ) -> Result<Response<proto::ReadRevisionResponse>, Status> {
        let revision = self.store.read_revision().await.map_err(status)?;
        Ok(Response::new(proto::ReadRevisionResponse { header: convert::header(revision) }))
    }

    type WatchStream = WatchStream;

    async fn watch(&self, request: Request<Streaming<proto::WatchRequest>>) -> Result<Response<WatchStream>, Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.and_then(|request| request.request_union);
        let Some(RequestUnion::CreateRequest(create)) = first else {
            return Err(Status::invalid_argument("a watch starts with its creation"));
        };
        let watch = self.store.watch(convert::watch(create)).await.map_err(status)?;
        let stream = futures::stream::unfold(Some((watch, requests)), |state| async {
            let (mut watch, mut requests) = state?;
            match next(&mut watch, &mut requests).await? {
                Ok(response) => Some((Ok(response), Some((watch, requests)))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

/// The next batch, asking for progress whenever the client does; `None` when either side is done.
async fn next(
    watch: &mut Watch,
    requests: &mut Streaming<proto::WatchRequest>,
) -> Option<Result<proto::WatchResponse, Status>> {
    loop {
        tokio::select! {
            batch = watch.next() => return batch.map(|batch| batch.map(convert::put_batch).map_err(status)),
            request = requests.message() => match request {
                Ok(Some(_)) => watch.request_progress(),
                Ok(None) | Err(_) => return None,
            },
        }
    }
}

/// A store error from its own encoding.
pub fn decode_error(bytes: bytes::Bytes) -> StoreError {
    let undecodable = |error| StoreError::Unknown(format!("the store's error cannot be decoded: {error}"));
    reply::error(&mut Reader::new(bytes)).unwrap_or_else(undecodable)
}
