//! A store in other processes, ours or an etcd: any member will do, because each of them serves reads and passes writes on. It
//! tries the next member only when the one before certainly did nothing.

use super::lifetime::{self, Lifetime};
use super::together::Together;
use super::{OURS, batch, convert, errors};
use crate::api::{
    LeaseId, RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchBatch, WatchRequest,
};
use crate::limits;
use crate::peer::{self, MAX_MESSAGE, StoreTls, TlsError};
use crate::proto::etcd;
use crate::proto::etcd::kv_client::KvClient;
use crate::proto::etcd::lease_client::LeaseClient;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::proto::etcd::watch_client::WatchClient;
use crate::proto::etcd::watch_request::RequestUnion;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

/// Batches that wait in a watch's channel.
const CHANNEL: usize = 16;
/// Transactions of one batch that are on their way at once.
const IN_FLIGHT: usize = 256;

/// A member that knew no batches may by then be one that does.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct RemoteStore {
    members: Arc<[Channel]>,
    /// The member that answered last.
    preferred: Arc<AtomicUsize>,
    lifetime: Option<Arc<Lifetime>>,
    /// Until when the members are taken for such that know no batches.
    single_until: Arc<Mutex<Option<Instant>>>,
    together: Arc<Together>,
}

impl RemoteStore {
    /// `members` are `host:port`. Connections are made when they are first used.
    pub fn new(members: &[String], tls: Option<&StoreTls>) -> Result<Self, TlsError> {
        let members: Result<Vec<_>, TlsError> = members.iter().map(|address| peer::channel(address, tls)).collect();
        Ok(Self {
            members: members?.into(),
            preferred: Arc::default(),
            lifetime: None,
            single_until: Arc::default(),
            together: Arc::default(),
        })
    }

    /// What is put into an etcd without a lease goes `ttl` after it was last written, or a little later. Members of our own are
    /// told how long their keys live when they start.
    #[must_use]
    pub fn with_lifetime(self, ttl: Duration) -> Self {
        Self { lifetime: Some(Arc::new(Lifetime::new(ttl))), ..self }
    }

    async fn call<T, F, R>(&self, again: Again, call: F) -> Result<T, StoreError>
    where
        F: Fn(Channel) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        self.answer(again, call).await.map(Response::into_inner)
    }

    /// Calls one member after the other until one answers. A write is repeated only if it was never sent.
    async fn answer<T, F, R>(&self, again: Again, call: F) -> Result<Response<T>, StoreError>
    where
        F: Fn(Channel) -> R,
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = StoreError::Unavailable("no member is configured".into());
        for i in 0..self.members.len() {
            let at = (first + i) % self.members.len();
            match call(self.members[at].clone()).await {
                Ok(answer) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(answer);
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

    async fn send(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        let request = convert::put_txn(txn);
        let call = |member: Channel| {
            let request = request.clone();
            async move { kv(member).txn(request).await }
        };
        convert::txn_reply(self.call(Again::IfNeverSent, call).await?)
    }

    /// Sends them together; `None`: the members know no batches.
    async fn send_together(&self, txns: &[Txn]) -> Result<Option<batch::Replies>, StoreError> {
        if !self.takes_batches() || !self.is_ours().await? {
            return Ok(None);
        }
        let message = batch::put(txns);
        let call = |member: Channel| {
            let message = message.clone();
            async move { batch::send(member, message).await }
        };
        let answer = self.call(Again::IfNeverSent, call).await?;
        let Some(answer) = answer else {
            *self.single_until.lock() = Some(Instant::now() + ASK_AGAIN);
            return Ok(None);
        };
        batch::replies(answer, txns.len()).map(Some)
    }

    /// One in a call of its own.
    async fn alone(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        match &self.lifetime {
            Some(lifetime) => self.send_mortal(txn, lifetime).await,
            None => self.send(txn).await,
        }
    }

    /// Those that are asked for singly and go together now.
    async fn joined(self, mut txns: Vec<Txn>) -> batch::Replies {
        match txns.len() {
            1 => vec![self.alone(txns.remove(0)).await],
            _ => self.one_call(txns).await,
        }
    }

    /// As many as fit into a call, all within the limits. Where there are no batches they go side by side.
    async fn one_call(&self, txns: Vec<Txn>) -> batch::Replies {
        match self.send_together(&txns).await {
            Ok(Some(replies)) => replies,
            Ok(None) => stream::iter(txns).map(|txn| self.alone(txn)).buffered(IN_FLIGHT).collect().await,
            Err(error) => vec![Err(error); txns.len()],
        }
    }

    /// As far as is known: members are asked first when there is a batch to send.
    fn takes_batches(&self) -> bool {
        let not_ours = self.lifetime.as_ref().is_some_and(|lifetime| lifetime.ours.get() == Some(&false));
        !not_ours && self.single_until.lock().is_none_or(|until| Instant::now() >= until)
    }

    /// What may be sent together: not what hangs on leases of an etcd.
    async fn is_ours(&self) -> Result<bool, StoreError> {
        match &self.lifetime {
            Some(lifetime) => lifetime.ours.get_or_try_init(|| self.ask_if_ours()).await.copied(),
            None => Ok(true),
        }
    }

    /// Sends what is to live for a while only.
    async fn send_mortal(&self, mut txn: Txn, lifetime: &Lifetime) -> Result<TxnReply, StoreError> {
        let keys = lifetime::free_keys(&mut txn);
        if keys == 0 || *lifetime.ours.get_or_try_init(|| self.ask_if_ours()).await? {
            return self.send(txn).await;
        }
        let lease = self.lease(lifetime, keys).await?;
        lifetime::rehang(&mut txn, LeaseId::NONE, lease);
        match self.send(txn.clone()).await {
            // Somebody revoked it, or it has run out; certainly nothing was done.
            Err(StoreError::NoLease(_)) => {
                lifetime.end(lease);
                lifetime::rehang(&mut txn, lease, self.lease(lifetime, keys).await?);
                self.send(txn).await
            }
            outcome => outcome,
        }
    }

    /// The lease for so many keys more.
    async fn lease(&self, lifetime: &Lifetime, keys: usize) -> Result<LeaseId, StoreError> {
        if let Some(lease) = lifetime.take(Instant::now(), keys) {
            return Ok(lease);
        }
        let _granting = lifetime.granting.lock().await;
        let now = Instant::now();
        if let Some(lease) = lifetime.take(now, keys) {
            return Ok(lease);
        }
        let request = etcd::LeaseGrantRequest { id: 0, ttl: lifetime.lease_s() };
        let call = |member: Channel| async move { LeaseClient::new(member).lease_grant(request).await };
        // One that is granted and not heard of runs out unused.
        let lease = LeaseId(self.call(Again::Always, call).await?.id);
        lifetime.begin(lease, now, keys);
        Ok(lease)
    }

    async fn ask_if_ours(&self) -> Result<bool, StoreError> {
        let call = |member: Channel| async move { MaintenanceClient::new(member).status(etcd::StatusRequest {}).await };
        Ok(self.answer(Again::Always, call).await?.metadata().contains_key(OURS))
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
    if let Some(error) = errors::known(status) {
        let next =
            matches!(error, StoreError::Unavailable(_) | StoreError::DiskFull { .. } | StoreError::Unreadable(_));
        return (error, next);
    }
    match status.code() {
        Code::InvalidArgument | Code::Unimplemented => (StoreError::Invalid(status.message().to_owned()), false),
        _ if peer::never_sent(status) || again == Again::Always => (StoreError::Unavailable(status.to_string()), true),
        _ => (StoreError::Unknown(status.to_string()), false),
    }
}

fn kv(member: Channel) -> KvClient<Channel> {
    KvClient::new(member).max_decoding_message_size(usize::MAX).max_encoding_message_size(MAX_MESSAGE)
}

#[async_trait::async_trait]
impl Store for RemoteStore {
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        limits::check(&txn)?;
        if !txn.writes() || !self.takes_batches() {
            return self.alone(txn).await;
        }
        let store = self.clone();
        self.together.txn(txn, move |txns| Self::joined(store.clone(), txns)).await
    }

    /// Members of our own take many in one call. etcd's interface has none for it: there they go side by side, and the leader puts
    /// those that arrive together into one entry.
    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
        let checks: Vec<_> = txns.iter().map(limits::check).collect();
        let good = txns.into_iter().zip(&checks).filter(|(_, check)| check.is_ok()).map(|(txn, _)| txn);
        let mut rest: Vec<Txn> = good.collect();
        let mut replies = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let after = rest.split_off(batch::fitting(rest.iter()));
            replies.append(&mut self.one_call(rest).await);
            rest = after;
        }
        let mut replies = replies.into_iter();
        let missing = || Err(StoreError::Unknown("a reply is missing".into()));
        Ok(checks.into_iter().map(|check| check.and_then(|()| replies.next().unwrap_or_else(missing))).collect())
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
        let whole = request.whole;
        let message = convert::put_range(request);
        let call = |member: Channel| {
            let mut request = Request::new(message.clone());
            if !whole {
                request.metadata_mut().insert(super::BOUNDED, MetadataValue::from_static("1"));
            }
            async move { kv(member).range(request).await }
        };
        Ok(convert::range_reply(self.call(Again::Always, call).await?))
    }

    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
        let from = request.from;
        let create = convert::put_watch(request);
        let asked = Arc::new(Notify::new());
        let call = |member: Channel| {
            let mut requests = Request::new(watch_requests(create.clone(), asked.clone()));
            // A member without a leader ends the watch instead of going quiet (etcd's header).
            requests.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            let mut client = WatchClient::new(member).max_decoding_message_size(usize::MAX);
            async move { client.watch(requests).await }
        };
        let responses = self.call(Again::Always, call).await?;
        let (sender, receiver) = mpsc::channel(CHANNEL);
        tokio::spawn(pump(responses, from, sender));
        Ok(Watch::new(receiver, Some(Box::new(move || asked.notify_one()))))
    }

    async fn read_revision(&self) -> Result<Revision, StoreError> {
        let nothing = RangeRequest { count_only: true, ..RangeRequest::key(&b"\0"[..]) };
        Ok(self.range(nothing).await?.revision)
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let request = etcd::CompactionRequest { revision: revision.0.cast_signed(), physical: false };
        let call = |member: Channel| async move { kv(member).compact(request).await };
        self.call(Again::Always, call).await.map(|_| ())
    }
}

/// The creation, then a progress request whenever one is asked for.
fn watch_requests(
    create: etcd::WatchCreateRequest,
    asked: Arc<Notify>,
) -> impl futures::Stream<Item = etcd::WatchRequest> + Send + 'static {
    stream::unfold(Some(create), move |create| {
        let asked = asked.clone();
        async move {
            let union = match create {
                Some(create) => RequestUnion::CreateRequest(create),
                None => {
                    asked.notified().await;
                    RequestUnion::ProgressRequest(etcd::WatchProgressRequest {})
                }
            };
            Some((etcd::WatchRequest { request_union: Some(union) }, None))
        }
    })
}

/// Hands batches on until either side ends. A full channel stops the stream, and HTTP/2 the member.
async fn pump(
    mut responses: Streaming<etcd::WatchResponse>,
    from: Revision,
    sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
) {
    loop {
        let next = tokio::select! {
            next = responses.message() => next,
            () = sender.closed() => return,
        };
        let batch = match next {
            Ok(Some(response)) if response.canceled => Err(cancelled(&response, from)),
            Ok(Some(response)) if response.created => continue,
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

fn cancelled(response: &etcd::WatchResponse, requested: Revision) -> StoreError {
    match u64::try_from(response.compact_revision) {
        Ok(oldest) if oldest > 0 => StoreError::Compacted { requested, oldest: Revision(oldest) },
        _ => StoreError::Unavailable(format!("the watch was cancelled: {}", response.cancel_reason)),
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
