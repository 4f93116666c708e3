//! A store in other processes: any member will do, because each of them serves reads and passes writes on. It tries the
//! next member only when the one before certainly did nothing.

use super::convert;
use super::service::decode_error;
use crate::api::{
    RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchBatch, WatchRequest,
};
use crate::limits;
use crate::peer::{self, MAX_MESSAGE, StoreTls, TlsError};
use crate::proto::kv_client::KvClient;
use crate::proto::watch_request::RequestUnion;
use crate::proto::{self, txn_result};
use futures::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Batches that wait in a watch's channel.
const CHANNEL: usize = 16;

/// Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct RemoteStore {
    members: Arc<[KvClient<Channel>]>,
    /// The member that answered last.
    preferred: Arc<AtomicUsize>,
}

impl RemoteStore {
    /// `members` are `host:port`. Connections are made when they are first used.
    pub fn new(members: &[String], tls: Option<&StoreTls>) -> Result<Self, TlsError> {
        let client = |address: &String| {
            let client = KvClient::new(peer::channel(address, tls)?);
            Ok(client.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
        };
        let members: Result<Vec<_>, TlsError> = members.iter().map(client).collect();
        Ok(Self { members: members?.into(), preferred: Arc::default() })
    }

    /// Calls one member after the other until one answers. A write is repeated only if it was never sent.
    async fn call<T, F, R>(&self, again: Again, call: F) -> Result<T, StoreError>
    where
        F: Fn(KvClient<Channel>) -> R,
        R: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = StoreError::Unavailable("no member is configured".into());
        for i in 0..self.members.len() {
            let at = (first + i) % self.members.len();
            match call(self.members[at].clone()).await {
                Ok(answer) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(answer.into_inner());
                }
                Err(status) => {
                    let (error, next) = judge(&status, again);
                    if !next {
                        return Err(error);
                    }
                    last = error;
                }
            }
        }
        Err(last)
    }
}

/// Whether a call may be repeated although it was perhaps carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Always,
    IfNeverSent,
}

/// What a failed call means, and whether another member may be tried.
fn judge(status: &Status, again: Again) -> (StoreError, bool) {
    if let Some(error) = peer::status_error(status) {
        let next = matches!(error, StoreError::Unavailable(_));
        return (error, next);
    }
    if peer::never_sent(status) || again == Again::Always {
        return (StoreError::Unavailable(status.to_string()), true);
    }
    match status.code() {
        Code::InvalidArgument | Code::Unimplemented => (StoreError::Invalid(status.message().to_owned()), false),
        _ => (StoreError::Unknown(status.to_string()), false),
    }
}

#[async_trait::async_trait]
impl Store for RemoteStore {
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        limits::check(&txn)?;
        let request = convert::put_txn(txn);
        let call = |mut member: KvClient<Channel>| {
            let request = request.clone();
            async move { member.txn(request).await }
        };
        convert::txn_reply(self.call(Again::IfNeverSent, call).await?)
    }

    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
        let request = proto::TxnBatchRequest { txns: txns.into_iter().map(convert::put_txn).collect() };
        let call = |mut member: KvClient<Channel>| {
            let request = request.clone();
            async move { member.txn_batch(request).await }
        };
        let response = self.call(Again::IfNeverSent, call).await?;
        let result = |result: proto::TxnResult| match result.result {
            Some(txn_result::Result::Response(reply)) => convert::txn_reply(reply),
            Some(txn_result::Result::Error(error)) => Err(decode_error(error)),
            None => Err(StoreError::Unknown("a transaction's result is missing".into())),
        };
        Ok(response.results.into_iter().map(result).collect())
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
        let request = convert::put_range(request);
        let call = |mut member: KvClient<Channel>| {
            let request = request.clone();
            async move { member.range(request).await }
        };
        Ok(convert::range_reply(self.call(Again::Always, call).await?))
    }

    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
        let create = convert::put_watch(request);
        let asked = Arc::new(Notify::new());
        let call = |mut member: KvClient<Channel>| {
            let requests = watch_requests(create.clone(), asked.clone());
            async move { member.watch(requests).await }
        };
        let responses = self.call(Again::Always, call).await?;
        let (sender, receiver) = mpsc::channel(CHANNEL);
        tokio::spawn(pump(responses, sender));
        Ok(Watch::new(receiver, Some(Box::new(move || asked.notify_one()))))
    }

    async fn read_revision(&self) -> Result<Revision, StoreError> {
        let call =
            |mut member: KvClient<Channel>| async move { member.read_revision(proto::ReadRevisionRequest {}).await };
        Ok(convert::revision(self.call(Again::Always, call).await?.header.as_ref()))
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let request = proto::CompactionRequest { revision: revision.0 as i64 };
        let call = |mut member: KvClient<Channel>| async move { member.compact(request).await };
        self.call(Again::Always, call).await.map(|_| ())
    }
}

/// The creation, then a progress request whenever one is asked for.
fn watch_requests(
    create: proto::WatchCreateRequest,
    asked: Arc<Notify>,
) -> impl futures::Stream<Item = proto::WatchRequest> + Send + 'static {
    stream::unfold(Some(create), move |create| {
        let asked = asked.clone();
        async move {
            let union = match create {
                Some(create) => RequestUnion::CreateRequest(create),
                None => {
                    asked.notified().await;
                    RequestUnion::ProgressRequest(proto::WatchProgressRequest {})
                }
            };
            Some((proto::WatchRequest { request_union: Some(union) }, None))
        }
    })
}

/// Hands batches on until either side ends. A full channel stops the stream, and HTTP/2 the member.
async fn pump(mut responses: Streaming<proto::WatchResponse>, sender: mpsc::Sender<Result<WatchBatch, StoreError>>) {
    loop {
        let next = tokio::select! {
            next = responses.message() => next,
            () = sender.closed() => return,
        };
        let batch = match next {
            Ok(Some(response)) => Ok(convert::batch(response)),
            Ok(None) => Err(StoreError::Unavailable("the member ended the watch".into())),
            Err(status) => Err(judge(&status, Again::Always).0),
        };
        let end = batch.is_err();
        if sender.send(batch).await.is_err() || end {
            return;
        }
    }
}
