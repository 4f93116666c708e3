//! The Watch service: many watches share one stream. Their batches become one stream of answers, cut into fragments where a
//! client wants that. The stream is made as the client takes it: what it does not take yet stays in the history.
//!
//! Its own answers (created, cancelled, progress) go the same way, so an answer never overtakes the events before it.

use super::{Face, convert, errors};
use crate::api::{Revision, StoreError, WatchBatch};
use crate::hub::{Delivery, Options, Reader, Step};
use crate::proto::etcd::watch_create_request::FilterType;
use crate::proto::etcd::watch_request::RequestUnion;
use crate::proto::etcd::{WatchCreateRequest, WatchRequest, WatchResponse, watch_server::Watch};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, stream};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Interval};
use tonic::{Request, Response, Status, Streaming};

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
        let leaderless = self.leaderless(self.check_leader(request.metadata().as_ref())?);
        let session = Session::new(self.clone(), request.into_inner(), leaderless);
        let answers = stream::unfold(Some(session), |session| async move {
            let mut session = session?;
            match session.next().await {
                Ok(answer) => Some((Ok(answer), Some(session))),
                Err(End::Gone) => None,
                Err(End::NoLeader) => Some((Err(errors::plain(errors::NO_LEADER)), None)),
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// One stream with its watches.
struct Session {
    face: Face,
    requests: Streaming<WatchRequest>,
    /// The client asks for nothing more; it still listens.
    asked_all: bool,
    /// When the client wants the stream to end.
    leaderless: BoxFuture<'static, ()>,
    reader: Reader,
    /// Answers that are ready: what one request or one delivery makes.
    answers: VecDeque<WatchResponse>,
    next_id: i64,
    /// Numbers of watches that were cut off by a compaction.
    spent: BTreeSet<i64>,
    /// A progress answer for all is due once every watch has been told everything up to here.
    owed: Option<Revision>,
    /// Since when the watches that want to hear of it have been quiet.
    quiet: BTreeMap<i64, Instant>,
    reminder: Option<Interval>,
}

/// Why a stream ends.
enum End {
    /// The client broke it off.
    Gone,
    NoLeader,
}

impl Session {
    fn new(face: Face, requests: Streaming<WatchRequest>, leaderless: BoxFuture<'static, ()>) -> Self {
        Self {
            reader: Reader::new(&face.handle.hub),
            face,
            requests,
            asked_all: false,
            leaderless,
            answers: VecDeque::new(),
            next_id: 0,
            spent: BTreeSet::new(),
            owed: None,
            quiet: BTreeMap::new(),
            reminder: None,
        }
    }

    /// The next answer, until the stream ends.
    async fn next(&mut self) -> Result<WatchResponse, End> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            match self.reader.step() {
                Step::Delivery(delivery) => self.deliver(delivery),
                Step::Fetch(fetch) => self.reader.fetched(fetch.run_beside().await),
                Step::Busy => {
                    // Requests are heard also while there is always something to tell.
                    let request = if self.asked_all { None } else { self.requests.message().now_or_never() };
                    match request {
                        None => tokio::task::yield_now().await,
                        Some(request) => self.request(request)?,
                    }
                    if (&mut self.leaderless).now_or_never().is_some() {
                        return Err(End::NoLeader);
                    }
                }
                Step::Idle => {
                    self.pay();
                    if self.answers.is_empty() {
                        self.wait().await?;
                    }
                }
            }
        }
    }

    async fn wait(&mut self) -> Result<(), End> {
        let reminded = async {
            match &mut self.reminder {
                Some(reminder) => reminder.tick().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            request = self.requests.message(), if !self.asked_all => return self.request(request),
            () = &mut self.leaderless => return Err(End::NoLeader),
            () = self.reader.news() => {}
            now = reminded => self.remind(now),
        }
        Ok(())
    }

    fn answer(&mut self, revision: Revision, mut response: WatchResponse) {
        response.header = self.face.header(revision);
        self.answers.push_back(response);
    }

    fn now(&self) -> Revision {
        self.face.handle.hub.revision()
    }

    fn request(&mut self, request: Result<Option<WatchRequest>, Status>) -> Result<(), End> {
        let Some(request) = request.map_err(|_| End::Gone)? else {
            self.asked_all = true;
            return Ok(());
        };
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(&create),
            Some(RequestUnion::CancelRequest(cancel)) => {
                let watch_id = cancel.watch_id;
                if self.reader.close(watch_id) || self.spent.remove(&watch_id) {
                    self.quiet.remove(&watch_id);
                    let response = WatchResponse { watch_id, canceled: true, ..WatchResponse::default() };
                    self.answer(self.now(), response);
                }
            }
            Some(RequestUnion::ProgressRequest(_)) => self.owed = Some(self.reader.mark()),
            None => {}
        }
        Ok(())
    }

    fn create(&mut self, create: &WatchCreateRequest) {
        if convert::is_empty_range(create) {
            return self.refuse(ALL, true, "mvcc: watcher range is empty".to_owned(), 0);
        }
        let id = match create.watch_id {
            0 => {
                while self.reader.has(self.next_id) || self.spent.contains(&self.next_id) {
                    self.next_id += 1;
                }
                self.next_id += 1;
                self.next_id - 1
            }
            id if self.reader.has(id) || self.spent.contains(&id) => {
                let reason = "mvcc: duplicate watch ID provided on the WatchStream";
                return self.refuse(ALL, true, reason.to_owned(), 0);
            }
            id => id,
        };
        let (now, response) = (self.now(), WatchResponse { watch_id: id, created: true, ..WatchResponse::default() });
        self.answer(now, response);
        match self.reader.open(id, &convert::watch(create), options(create)) {
            Ok(_) if create.progress_notify => {
                let now = Instant::now();
                self.quiet.insert(id, now);
                self.reminder.get_or_insert_with(|| tokio::time::interval_at(now + PROGRESS / 10, PROGRESS / 10));
            }
            Ok(_) => {}
            Err(error) => self.end(id, &error),
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { id, options, batch } = delivery;
        match batch {
            Ok(WatchBatch { revision, events }) => {
                if options.progress {
                    self.quiet.insert(id, Instant::now());
                }
                let events = events.into_iter().map(convert::put_event).collect();
                let mut parts = if options.fragment { fragments(events) } else { vec![events] }.into_iter().peekable();
                while let Some(events) = parts.next() {
                    let fragment = parts.peek().is_some();
                    self.answer(revision, WatchResponse { watch_id: id, events, fragment, ..WatchResponse::default() });
                }
            }
            Err(error) => self.end(id, &error),
        }
    }

    /// Tells the quiet watches that asked for it where they are.
    fn remind(&mut self, now: Instant) {
        let due = |since: &Instant| now.duration_since(*since) >= PROGRESS;
        let ids: Vec<i64> = self.quiet.iter().filter(|(_, since)| due(since)).map(|(id, _)| *id).collect();
        for watch_id in ids {
            if let Some(position) = self.reader.position(watch_id) {
                self.quiet.insert(watch_id, now);
                self.answer(position, WatchResponse { watch_id, ..WatchResponse::default() });
            }
        }
    }

    /// Answers a progress request once every watch has come as far as the store was when it was made.
    fn pay(&mut self) {
        if self.owed.is_some_and(|revision| self.reader.reached(revision)) {
            self.owed = None;
            self.answer(self.reader.base(), WatchResponse { watch_id: ALL, ..WatchResponse::default() });
        }
    }

    fn end(&mut self, id: i64, error: &StoreError) {
        self.quiet.remove(&id);
        match error {
            // No reason, and the number stays taken until the client cancels it (etcd's rule).
            StoreError::Compacted { oldest, .. } => {
                self.spent.insert(id);
                self.refuse(id, false, String::new(), oldest.0.cast_signed());
            }
            error => self.refuse(id, false, errors::status(error.clone()).message().to_owned(), 0),
        }
    }

    fn refuse(&mut self, watch_id: i64, created: bool, cancel_reason: String, compact_revision: i64) {
        let response = WatchResponse {
            watch_id,
            created,
            canceled: true,
            cancel_reason,
            compact_revision,
            ..WatchResponse::default()
        };
        self.answer(self.now(), response);
    }
}

fn options(create: &WatchCreateRequest) -> Options {
    let filter = |filter: FilterType| create.filters.contains(&filter.into());
    Options {
        prev_kv: create.prev_kv,
        no_put: filter(FilterType::Noput),
        no_delete: filter(FilterType::Nodelete),
        fragment: create.fragment,
        progress: create.progress_notify,
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

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
