//! Watch. Decides from where a stream starts, what each watcher is told of an event, when bookmarks are sent and when it ends.
//!
//! The first bytes go out at once. A watcher that falls behind its queue is cut off and starts again from its last version.

use super::call::Call;
use super::list::{await_now, await_version};
use super::output::{Writer, message_type};
use crate::cache::{Event, EventType, From, Object, Selection, Subscription, Tree};
use crate::http::body::{JSON, respond, stream};
use crate::http::negotiate::{Encoding, Projection};
use crate::http::{Outcome, Query, Response};
use crate::served::Served;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use gantry_apimachinery::protobuf;
use gantry_apimachinery::status::Status;
use http::StatusCode;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, Sleep};
use tokio_util::sync::CancellationToken;

/// A watch that names no time ends after this, as in Kubernetes between 30 and 60 minutes.
const MIN_TIMEOUT_S: u64 = 1_800;
/// No watch lasts longer, whatever its client asks for.
const MAX_TIMEOUT_S: u64 = 24 * 3_600;
/// Initial contents are joined into pieces of this size.
const CHUNK: usize = 64 * 1024;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub async fn watch(
    call: &Call<'_>,
    query: &Query,
    selection: Selection,
    writer: Writer,
    shutdown: CancellationToken,
) -> Outcome<Response> {
    let bookmarks = query.flag("allowWatchBookmarks");
    let initial_events = initial_events(query, bookmarks)?;
    let from = start(call, query, initial_events).await?;
    let resource = &call.served.resource;
    let dispatch = selection.dispatch(resource.kind.namespaced);
    let subscribed = resource.subscribe(from, dispatch, call.core.config.watch_queue);
    let subscription = match subscribed {
        Ok(subscription) => subscription,
        Err(old) => {
            let status = Status::expired(format!("too old resource version: {} ({})", old.requested, old.oldest));
            return Ok(one_frame(&status));
        }
    };
    let timeout = timeout_s(query.number("timeoutSeconds")?, call.entropy);
    let mut every = tokio::time::interval(Duration::from_secs(call.core.config.bookmark_every_s));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every.reset();
    let stream_of = Watcher {
        sent_columns: false,
        bookmarks,
        end_of_initial: initial_events,
        ends: Box::pin(tokio::time::sleep(Duration::from_secs(timeout))),
        every,
        served: call.served.clone(),
        selection,
        writer,
        shutdown,
        after: if let From::After(revision) = from { revision } else { 0 },
        state: Phase::Initial(subscription),
    };
    if stream_of.writer.output.encoding == Encoding::Protobuf {
        if call.served.as_custom().is_some() {
            return Err(Status::not_acceptable(&["application/json"]).into());
        }
        let mut response = respond(StatusCode::OK, "application/vnd.kubernetes.protobuf;stream=watch", Bytes::new());
        *response.body_mut() = stream(stream_of.into_stream().map(|lines| in_protobuf(&lines)));
        return Ok(response);
    }
    let mut response = respond(StatusCode::OK, JSON, Bytes::new());
    *response.body_mut() = stream(stream_of.into_stream());
    Ok(response)
}

/// The same events as protobuf frames.
fn in_protobuf(lines: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(lines.len());
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        if let Ok(ty) = message_type(&event["object"]) {
            out.extend_from_slice(&protobuf::watch_frame(event["type"].as_str().unwrap_or(""), &event["object"], ty));
        }
    }
    out.freeze()
}

fn timeout_s(asked: Option<i64>, entropy: u64) -> u64 {
    match asked.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
        Some(seconds) => seconds.min(MAX_TIMEOUT_S),
        None => MIN_TIMEOUT_S + entropy % MIN_TIMEOUT_S,
    }
}

/// From where the stream starts.
async fn start(call: &Call<'_>, query: &Query, initial_events: bool) -> Outcome<From> {
    if query.has("at") {
        return Err(
            Status::bad_request("at names a time to list or get at: a watch goes on from a resourceVersion").into()
        );
    }
    let version = query.get("resourceVersion");
    Ok(match (initial_events, version) {
        (true, Some(version)) if version != "0" => {
            await_version(call, version).await?;
            From::Contents
        }
        (true, Some(_)) => From::Contents,
        (true, None) => {
            await_now(call).await?;
            From::Contents
        }
        (false, None) if query.has("sendInitialEvents") => {
            await_now(call).await?;
            From::Now
        }
        (false, None) => {
            await_now(call).await?;
            From::Contents
        }
        (false, Some("0")) if query.has("sendInitialEvents") => From::Now,
        (false, Some("0")) => From::Contents,
        (false, Some(version)) => {
            let wanted =
                version.parse().map_err(|_| Status::bad_request(format!("invalid resourceVersion {version:?}")))?;
            From::After(wanted)
        }
    })
}

fn initial_events(query: &Query, bookmarks: bool) -> Outcome<bool> {
    let wanted = query.has("sendInitialEvents") && query.flag("sendInitialEvents");
    let rule = query.get("resourceVersionMatch");
    if !query.has("sendInitialEvents") {
        if rule.is_some() {
            return Err(forbidden(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        return Ok(false);
    }
    if rule != Some("NotOlderThan") {
        return Err(forbidden(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if wanted && !bookmarks {
        return Err(forbidden(
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless allowWatchBookmarks is set",
        ));
    }
    Ok(wanted)
}

fn forbidden(text: &str) -> Box<Status> {
    let mut status = Status::bad_request(format!("ListOptions.meta.k8s.io \"\" is invalid: {text}"));
    status.reason = gantry_apimachinery::status::Reason::Invalid;
    status.code = 422;
    status.into()
}

/// A stream of one error, which is how a watch says no.
fn one_frame(status: &Status) -> Response {
    respond(StatusCode::OK, JSON, error_frame(status))
}

fn error_frame(status: &Status) -> Bytes {
    let object = serde_json::to_string(status).unwrap_or_default();
    format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n").into()
}

enum Phase {
    Initial(Subscription),
    Contents { objects: std::vec::IntoIter<Arc<Object>>, rest: Live },
    Live(Live),
    Over,
}

struct Live {
    replay: VecDeque<Arc<Event>>,
    revision: u64,
    events: tokio::sync::mpsc::Receiver<Arc<Event>>,
}

/// What an idle moment says of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Quiet {
    /// Events wait to be sent.
    Behind,
    /// It was too slow: what it was not offered is missing, so it must not be told how far it is.
    CutOff,
    CaughtUp,
}

impl Live {
    /// Asked after `applied` was read. Everything up to `applied` was offered before `applied` was published: an empty queue that
    /// is still open means that it was all taken.
    fn quiet(&self) -> Quiet {
        match (self.events.is_empty(), self.events.is_closed()) {
            (false, _) => Quiet::Behind,
            (true, true) => Quiet::CutOff,
            (true, false) => Quiet::CaughtUp,
        }
    }
}

struct Watcher {
    served: Arc<Served>,
    selection: Selection,
    writer: Writer,
    bookmarks: bool,
    end_of_initial: bool,
    sent_columns: bool,
    /// Made once: a timer of its own for every event would cost more than the event.
    ends: Pin<Box<Sleep>>,
    every: Interval,
    shutdown: CancellationToken,
    /// The client has seen everything up to here, perhaps from another server that is further than this one.
    after: u64,
    state: Phase,
}

impl Watcher {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watcher| async move { watcher.next().await.map(|bytes| (bytes, watcher)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match std::mem::replace(&mut self.state, Phase::Over) {
                Phase::Initial(subscription) => {
                    let Subscription { initial, replay, revision, events } = subscription;
                    let rest = Live { replay: replay.into(), revision, events };
                    self.state = Phase::Contents { objects: self.matching(&initial).into_iter(), rest };
                }
                Phase::Contents { mut objects, rest } => {
                    let bytes = self.contents(&mut objects).await?;
                    let revision = rest.revision;
                    if bytes.len() >= CHUNK {
                        self.state = Phase::Contents { objects, rest };
                        return Some(bytes.freeze());
                    }
                    self.state = Phase::Live(rest);
                    let mut bytes = bytes;
                    if self.end_of_initial {
                        bytes.extend_from_slice(&self.bookmark(revision, true));
                    }
                    if !bytes.is_empty() {
                        return Some(bytes.freeze());
                    }
                }
                Phase::Live(mut live) => {
                    let frame = self.live(&mut live).await?;
                    self.state = Phase::Live(live);
                    if !frame.is_empty() {
                        return Some(frame);
                    }
                }
                Phase::Over => return None,
            }
        }
    }

    fn matching(&self, tree: &Tree) -> Vec<Arc<Object>> {
        self.selection.select(tree, self.served.kind.namespaced).cloned().collect()
    }

    async fn contents(&mut self, objects: &mut (impl Iterator<Item = Arc<Object>> + Send)) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        while out.len() < CHUNK {
            let Some(object) = objects.next() else { break };
            let object = self.show(&object).await?;
            match self.writer.output.projection {
                Projection::Whole => object.write_frame(EventType::Added, &mut out),
                _ => out.extend_from_slice(&self.projected(EventType::Added, &object)),
            }
        }
        Some(out)
    }

    /// The object as this version's clients see it. A conversion that fails ends the stream; its client starts again.
    async fn show(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        match self.served.show(object.clone()).await {
            Ok(shown) => Some(shown),
            Err(status) => {
                tracing::warn!(resource = %self.served.kind.resource(), %status.message, "a watch ends: its objects cannot be converted");
                None
            }
        }
    }

    /// The next frame, or an empty one when an event was not for this watcher. `None` ends the stream.
    async fn live(&mut self, live: &mut Live) -> Option<Bytes> {
        if let Some(event) = live.replay.pop_front() {
            return self.frame(&event).await;
        }
        let received = tokio::select! {
            biased;
            event = live.events.recv() => Some(event?),
            () = &mut self.ends => return None,
            () = self.shutdown.cancelled() => return None,
            _ = self.every.tick(), if self.bookmarks => None,
        };
        if let Some(event) = received {
            return self.frame(&event).await;
        }
        let applied = self.served.group.applied();
        match live.quiet() {
            Quiet::Behind => Some(Bytes::new()),
            Quiet::CutOff => None,
            Quiet::CaughtUp => Some(self.bookmark(applied.max(live.revision).max(self.after), false)),
        }
    }

    /// Empty when the event is not for this watcher; `None` ends the stream.
    async fn frame(&mut self, event: &Event) -> Option<Bytes> {
        if event.is_known_at(self.after) {
            return Some(Bytes::new());
        }
        let Some((kind, object)) = event.seen_by(&self.selection) else { return Some(Bytes::new()) };
        // Ages in table rows are counted from the event, not from the watch's start.
        self.writer.now = self.served.group.now();
        if self.served.conversion.is_some() {
            let object = self.show(object).await?;
            return Some(match self.writer.output.projection {
                Projection::Whole => wrap(kind.as_str(), &object.json()),
                _ => self.projected(kind, &object),
            });
        }
        Some(match self.writer.output.projection {
            Projection::Whole => object.frame(kind).unwrap_or_else(|| {
                let mut out = BytesMut::with_capacity(object.weight());
                object.write_frame(kind, &mut out);
                out.freeze()
            }),
            // Rows are the same for everyone who prints them; whole objects in rows are rare and not shared.
            Projection::Table
                if self.sent_columns
                    && self.writer.include == Default::default()
                    && Arc::ptr_eq(object, &event.object) =>
            {
                let row = event.row.get_or_init(|| self.writer.event_object(&self.served, object, false));
                wrap(kind.as_str(), row)
            }
            _ => self.projected(kind, object),
        })
    }

    fn projected(&mut self, kind: EventType, object: &Object) -> Bytes {
        let first = !std::mem::replace(&mut self.sent_columns, true);
        wrap(kind.as_str(), &self.writer.event_object(&self.served, object, first))
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let kind = self.served.kind;
        let object: Value = match self.writer.output.projection {
            Projection::Whole => json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata}),
            Projection::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Projection::Table => {
                let object =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": null,
                    "rows": [{"cells": [], "object": object}]})
            }
        };
        wrap("BOOKMARK", object.to_string().as_bytes())
    }
}

fn wrap(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_bounded() {
        assert_eq!(timeout_s(Some(5), 0), 5);
        assert_eq!(timeout_s(Some(i64::MAX), 0), MAX_TIMEOUT_S);
        for none in [None, Some(0), Some(-1)] {
            assert_eq!(timeout_s(none, MIN_TIMEOUT_S + 7), MIN_TIMEOUT_S + 7);
        }
    }

    #[test]
    fn a_stream_that_was_cut_off_gets_no_bookmark() {
        let (sender, events) = tokio::sync::mpsc::channel(1);
        let live = Live { replay: VecDeque::new(), revision: 1, events };
        assert_eq!(live.quiet(), Quiet::CaughtUp);
        drop(sender);
        assert_eq!(live.quiet(), Quiet::CutOff);
    }
}
