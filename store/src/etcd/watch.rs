//! The Watch service: many watches share one stream. Each follows history at its own pace; here their batches become one
//! stream of answers, cut into fragments where a client wants that.
//!
//! Its own answers (created, cancelled, progress) go the same way, so an answer never overtakes the events before it.

use super::{Face, convert, errors};
use crate::api::{EventKind, Revision, Store, StoreError, Watch as Follow, WatchBatch};
use crate::proto::etcd::watch_create_request::FilterType;
use crate::proto::etcd::watch_request::RequestUnion;
use crate::proto::etcd::{WatchCreateRequest, WatchRequest, WatchResponse, watch_server::Watch};
use futures::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, Streaming};

/// Answers that wait for the client.
const ANSWERS: usize = 64;
/// A watch that asked for it hears this often that there is nothing new (etcd's interval).
const PROGRESS: Duration = Duration::from_secs(600);
/// A fragment has about this many bytes at most (etcd's request limit and its overhead).
const FRAGMENT_BYTES: usize = 2 << 20;
/// The watch that a progress answer for the whole stream names (etcd's convention).
const ALL: i64 = -1;

type Answers = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Watch for Face {
    type WatchStream = Answers;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Answers>, Status> {
        let (sender, receiver) = mpsc::channel(ANSWERS);
        let stream = Session::new(self.clone(), sender);
        tokio::spawn(stream.run(request.into_inner()));
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receiver))))
    }
}

/// News of one watch, from the task that follows it.
struct News {
    id: i64,
    batch: Option<Result<WatchBatch, StoreError>>,
}

/// One running watch.
struct Running {
    ask: mpsc::Sender<()>,
    no_put: bool,
    no_delete: bool,
    fragment: bool,
    progress: bool,
    /// Everything up to here was delivered.
    seen: Revision,
    quiet_since: tokio::time::Instant,
    #[expect(dead_code, reason = "held for its drop, which ends the task")]
    stop: DropGuard,
}

/// One stream with its watches.
struct Session {
    face: Face,
    answers: mpsc::Sender<Result<WatchResponse, Status>>,
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
    watches: BTreeMap<i64, Running>,
    next_id: i64,
    /// A progress answer for all is due once these have seen the revision.
    owed: Option<(Revision, BTreeSet<i64>)>,
}

/// The client is gone.
struct Gone;

impl Session {
    fn new(face: Face, answers: mpsc::Sender<Result<WatchResponse, Status>>) -> Self {
        Self { face, answers, news: mpsc::channel(1), watches: BTreeMap::new(), next_id: 0, owed: None }
    }

    async fn run(mut self, mut requests: Streaming<WatchRequest>) {
        let mut timer = tokio::time::interval(PROGRESS / 10);
        loop {
            let done = tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => self.request(request).await,
                    Ok(None) | Err(_) => Err(Gone),
                },
                Some(news) = self.news.1.recv() => self.news(news).await,
                _ = timer.tick() => self.remind().await,
                () = self.answers.closed() => Err(Gone),
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, revision: Revision, mut response: WatchResponse) -> Result<(), Gone> {
        response.header = self.face.header(revision);
        self.answers.send(Ok(response)).await.map_err(|_| Gone)
    }

    fn now(&self) -> Revision {
        self.face.handle.hub.view().revision()
    }

    async fn request(&mut self, request: WatchRequest) -> Result<(), Gone> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => match self.watches.remove(&cancel.watch_id) {
                None => Ok(()),
                Some(_) => {
                    self.forgive(cancel.watch_id).await?;
                    let response =
                        WatchResponse { watch_id: cancel.watch_id, canceled: true, ..WatchResponse::default() };
                    self.answer(self.now(), response).await
                }
            },
            Some(RequestUnion::ProgressRequest(_)) => {
                self.owed = Some((self.now(), self.watches.keys().copied().collect()));
                for watch in self.watches.values() {
                    // One question that waits is as good as two.
                    let _ = watch.ask.try_send(());
                }
                self.pay().await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, create: WatchCreateRequest) -> Result<(), Gone> {
        if convert::is_empty_range(&create) {
            return self.refuse(ALL, "mvcc: watcher range is empty".to_owned(), 0).await;
        }
        let taken = self.watches.contains_key(&create.watch_id);
        let id = match create.watch_id {
            0 => {
                while self.watches.contains_key(&self.next_id) {
                    self.next_id += 1;
                }
                self.next_id += 1;
                self.next_id - 1
            }
            id if id < 0 || taken => {
                let reason = "etcdserver: duplicate watch ID provided on the WatchStream";
                return self.refuse(ALL, reason.to_owned(), 0).await;
            }
            id => id,
        };
        let (now, response) = (self.now(), WatchResponse { watch_id: id, created: true, ..WatchResponse::default() });
        match self.face.store.watch(convert::watch(&create)).await {
            Ok(follow) => {
                let running = self.follow(id, &create, follow, now);
                self.watches.insert(id, running);
                self.answer(now, response).await
            }
            Err(error) => {
                self.answer(now, response).await?;
                self.end(id, &error).await
            }
        }
    }

    fn follow(&self, id: i64, create: &WatchCreateRequest, follow: Follow, now: Revision) -> Running {
        let (ask, asked) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        tokio::spawn(pump(id, follow, asked, self.news.0.clone(), cancel.clone()));
        let filters = |filter: FilterType| create.filters.contains(&filter.into());
        Running {
            ask,
            no_put: filters(FilterType::Noput),
            no_delete: filters(FilterType::Nodelete),
            fragment: create.fragment,
            progress: create.progress_notify,
            seen: if create.start_revision > 0 { Revision(0) } else { now },
            quiet_since: tokio::time::Instant::now(),
            stop: cancel.drop_guard(),
        }
    }

    async fn news(&mut self, news: News) -> Result<(), Gone> {
        let Some(watch) = self.watches.get_mut(&news.id) else { return Ok(()) };
        match news.batch {
            Some(Ok(batch)) => {
                watch.seen = batch.revision;
                if !batch.events.is_empty() {
                    watch.quiet_since = tokio::time::Instant::now();
                }
                let fragment = watch.fragment;
                let (no_put, no_delete) = (watch.no_put, watch.no_delete);
                let wanted = |kind| !(kind == EventKind::Put && no_put || kind == EventKind::Delete && no_delete);
                let events: Vec<_> = batch.events.into_iter().filter(|event| wanted(event.kind)).collect();
                let events = events.into_iter().map(convert::put_event).collect();
                self.deliver(news.id, batch.revision, events, fragment).await?;
                self.pay().await
            }
            Some(Err(error)) => self.end(news.id, &error).await,
            None => self.end(news.id, &StoreError::Unavailable("the store is stopping".into())).await,
        }
    }

    async fn deliver(
        &self,
        watch_id: i64,
        revision: Revision,
        events: Vec<crate::proto::etcd::Event>,
        fragment: bool,
    ) -> Result<(), Gone> {
        if events.is_empty() {
            return Ok(());
        }
        let mut parts = if fragment { fragments(events) } else { vec![events] }.into_iter().peekable();
        while let Some(events) = parts.next() {
            let fragment = parts.peek().is_some();
            let response = WatchResponse { watch_id, events, fragment, ..WatchResponse::default() };
            self.answer(revision, response).await?;
        }
        Ok(())
    }

    /// Tells the quiet watches that asked for it where they are.
    async fn remind(&mut self) -> Result<(), Gone> {
        let now = tokio::time::Instant::now();
        let mut due = Vec::new();
        for (id, watch) in &mut self.watches {
            if watch.progress && now.duration_since(watch.quiet_since) >= PROGRESS {
                watch.quiet_since = now;
                due.push((*id, watch.seen));
            }
        }
        for (watch_id, seen) in due.into_iter().filter(|(_, seen)| seen.0 > 0) {
            self.answer(seen, WatchResponse { watch_id, ..WatchResponse::default() }).await?;
        }
        Ok(())
    }

    /// Answers a progress request once every watch has come as far as the store was when it was made.
    async fn pay(&mut self) -> Result<(), Gone> {
        let Some((revision, waiting)) = &mut self.owed else { return Ok(()) };
        waiting.retain(|id| self.watches.get(id).is_some_and(|watch| watch.seen < *revision));
        if !waiting.is_empty() {
            return Ok(());
        }
        let revision = *revision;
        self.owed = None;
        self.answer(revision, WatchResponse { watch_id: ALL, ..WatchResponse::default() }).await
    }

    /// A watch that is gone owes no progress.
    async fn forgive(&mut self, id: i64) -> Result<(), Gone> {
        if let Some((_, waiting)) = &mut self.owed {
            waiting.remove(&id);
        }
        self.pay().await
    }

    async fn end(&mut self, id: i64, error: &StoreError) -> Result<(), Gone> {
        self.watches.remove(&id);
        self.forgive(id).await?;
        let compacted = if let StoreError::Compacted { oldest, .. } = error { oldest.0.cast_signed() } else { 0 };
        self.refuse(id, errors::status(error.clone()).message().to_owned(), compacted).await
    }

    async fn refuse(&self, watch_id: i64, cancel_reason: String, compact_revision: i64) -> Result<(), Gone> {
        let created = watch_id == ALL;
        let response = WatchResponse {
            watch_id,
            created,
            canceled: true,
            cancel_reason,
            compact_revision,
            ..WatchResponse::default()
        };
        self.answer(self.now(), response).await
    }
}

/// Cuts the events of one batch where a fragment is full; never inside a revision's key.
fn fragments(events: Vec<crate::proto::etcd::Event>) -> Vec<Vec<crate::proto::etcd::Event>> {
    use prost::Message;
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for event in events {
        let size = event.encoded_len();
        if bytes > 0 && bytes + size > FRAGMENT_BYTES {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        parts.last_mut().expect("there is always a part").push(event);
    }
    parts
}

/// Follows one watch until it ends or is not wanted any more.
async fn pump(
    id: i64,
    mut follow: Follow,
    mut asked: mpsc::Receiver<()>,
    news: mpsc::Sender<News>,
    cancel: CancellationToken,
) {
    loop {
        let batch = tokio::select! {
            batch = follow.next() => batch,
            Some(()) = asked.recv() => {
                follow.request_progress();
                continue;
            }
            () = cancel.cancelled() => return,
        };
        let over = !matches!(batch, Some(Ok(_)));
        tokio::select! {
            sent = news.send(News { id, batch }) => if sent.is_err() || over { return },
            () = cancel.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fragments;
    use crate::proto::etcd::{Event, KeyValue};

    fn event(bytes: usize) -> Event {
        let kv = KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() };
        Event { kv: Some(kv), ..Event::default() }
    }

    #[test]
    fn a_fragment_is_not_larger_than_needed_and_no_event_is_lost() {
        let cut = |sizes: &[usize]| -> Vec<usize> {
            fragments(sizes.iter().map(|size| event(*size)).collect()).iter().map(Vec::len).collect()
        };
        assert_eq!(cut(&[1, 1, 1]), [3]);
        assert_eq!(cut(&[1 << 20, 1 << 19, 1 << 20, 3 << 20, 1]), [2, 1, 1, 1]);
    }
}
