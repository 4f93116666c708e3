//! Keeps an informer's copy equal to the server's: list, watch from there, resume, list again after 410, back off, and
//! notice a watch that fell silent. Never decides what a change means.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::ObjectMeta;
use gantry_apimachinery::status::Status;
use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::InformerOptions;
use super::held::{Decode, Entry};
use super::items::Items;
use super::lines::{Lines, MAX_LINE};
use super::told::Told;
use crate::backoff::{Backoff, entropy, jittered};
use crate::client::{Client, JSON};
use crate::error::{ApiError, TransportError};
use crate::metrics::KindLabel;
use crate::options::ListOptions;
use crate::query::Query;
use crate::response::{ListMeta, classify};

/// The server's bookmarks come about once a minute; after this long without a byte the stream is taken for dead.
const SILENCE: Duration = Duration::from_secs(150);
/// The server must begin to answer within this, and go on with a list.
const WATCH_START: Duration = Duration::from_secs(30);
/// A watch that lasted less than this and brought nothing is no success.
const SHORT: Duration = Duration::from_secs(1);

const HEADER_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const HEADER: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// How one watch ended.
enum Ended {
    /// The server closed it, as it does now and then.
    Closed,
    /// Nothing came for too long.
    Silent,
    /// It told something that whoever listens could not make use of.
    Unclear,
}

/// Where a reflector puts what it learns.
pub(super) trait Sink: Send {
    fn kind(&self) -> &'static Kind;
    fn decode(&self) -> Decode;
    /// This is everything.
    fn replace(&mut self, all: Vec<Entry>);
    fn apply(&mut self, object: Entry);
    /// Answers whether it knew what to do: without the object's last state not everybody does, and then needs a list.
    fn remove(&mut self, ns: &str, name: &str, last: Option<Entry>) -> bool;
    /// Everything before this revision was told, and something of it; all of it when `whole`. `synced` after a list.
    fn reached(&mut self, revision: u64, whole: bool, synced: bool);
    /// Waits while whoever listens is busy. Called after each piece of the stream.
    fn flush(&mut self) -> impl Future<Output = ()> + Send;
}

struct Reflector<S> {
    client: Client,
    options: InformerOptions,
    sink: S,
    told: Told,
    /// Whether this watch brought anything.
    progressed: bool,
}

pub(super) async fn run(client: Client, options: InformerOptions, sink: impl Sink, cancel: CancellationToken) {
    let mut reflector = Reflector { client, options, sink, told: Told::default(), progressed: false };
    cancel.run_until_cancelled(reflector.run()).await;
}

impl<S: Sink> Reflector<S> {
    async fn run(&mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(30));
        loop {
            let start = Instant::now();
            self.progressed = false;
            let result = self.pass().await;
            if self.progressed || (result.is_ok() && start.elapsed() >= SHORT) {
                backoff.reset();
            }
            let kind = self.sink.kind().plural;
            match result {
                Ok(Ended::Closed) if self.progressed || start.elapsed() >= SHORT => continue,
                Ok(Ended::Closed) => {}
                Ok(Ended::Unclear) => tracing::info!(kind, "something unreadable is gone; listing again"),
                Ok(Ended::Silent) => {
                    self.count(|m, label| m.stalls.get_or_create(label).inc());
                    tracing::warn!(kind, "the watch fell silent; starting it again");
                    continue;
                }
                Err(error) if error.is_gone() => {
                    tracing::info!(kind, from = self.told.version(), "the watch's start is history; listing again");
                    self.told.forget();
                }
                Err(error) => {
                    self.count(|m, label| m.watch_failures.get_or_create(label).inc());
                    tracing::warn!(kind, error = error.chain(), "following failed; will try again");
                }
            }
            tokio::time::sleep(backoff.next(entropy())).await;
        }
    }

    /// A list if one is needed, then one watch to its end.
    async fn pass(&mut self) -> Result<Ended, ApiError> {
        let from = match self.told.version() {
            Some(from) => from.to_owned(),
            None => self.list().await?,
        };
        self.watch(&from).await
    }

    async fn list(&mut self) -> Result<String, ApiError> {
        let mut options = ListOptions {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            ..ListOptions::default()
        };
        let mut all: Vec<Entry> = Vec::new();
        let version = loop {
            let meta = self.page(&options, &mut all).await?;
            if meta.continue_token.is_empty() {
                break meta.resource_version;
            }
            options.continue_token = meta.continue_token;
        };
        self.count(|m, label| m.lists.get_or_create(label).inc());
        self.told.all_up_to(&version);
        for object in &all {
            let meta = object.meta();
            self.told.listed(&meta.resource_version, &meta.namespace, &meta.name);
        }
        self.sink.replace(all);
        self.reached(&version, true, true);
        self.sink.flush().await;
        Ok(version)
    }

    /// One answer, whose objects are read as they come: nobody holds its text. A server that wants to answer in pages says so.
    async fn page(&self, options: &ListOptions, all: &mut Vec<Entry>) -> Result<ListMeta, ApiError> {
        let mut query = options.query();
        if let Some((name, value)) = self.options.list_parameter {
            query.push(name, value);
        }
        let mut body = self.begin(query, self.accept().0).await?.into_data_stream();
        let mut items = Items::default();
        loop {
            let chunk = match tokio::time::timeout(WATCH_START, body.next()).await {
                Err(_) => return Err(TransportError::TimedOut(WATCH_START).into()),
                Ok(None) => return items.finish().map_err(ApiError::Decode),
                Ok(Some(Err(error))) => return Err(TransportError::Body(Box::new(error)).into()),
                Ok(Some(Ok(chunk))) => chunk,
            };
            let take = |item: &[u8]| match std::str::from_utf8(item) {
                Ok(text) => all.extend(self.read(text)),
                Err(error) => tracing::error!(kind = self.sink.kind().plural, %error, "an object cannot be read"),
            };
            items.push(&chunk, take).map_err(ApiError::Decode)?;
        }
    }

    async fn watch(&mut self, from: &str) -> Result<Ended, ApiError> {
        let mut query = ListOptions {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            resource_version: from.to_owned(),
            ..ListOptions::default()
        }
        .query();
        let lifetime = jittered(Duration::from_secs(300), Duration::from_secs(300), entropy());
        query
            .push("watch", "true")
            .push("allowWatchBookmarks", "true")
            .push("timeoutSeconds", &lifetime.as_secs().to_string());
        let mut body = self.begin(query, self.accept().1).await?.into_data_stream();
        let mut lines = Lines::default();
        loop {
            let chunk = match tokio::time::timeout(SILENCE, body.next()).await {
                Err(_) => return Ok(Ended::Silent),
                Ok(None) => return Ok(Ended::Closed),
                Ok(Some(Err(error))) => return Err(TransportError::Body(Box::new(error)).into()),
                Ok(Some(Ok(chunk))) => chunk,
            };
            lines.push(&chunk);
            while let Some(line) = lines.next() {
                self.event(&line)?;
                if self.told.version().is_none() {
                    return Ok(Ended::Unclear);
                }
            }
            self.sink.flush().await;
            if lines.is_too_long() {
                return Err(TransportError::LineTooLong(MAX_LINE).into());
            }
        }
    }

    /// Asks, and waits until the server begins to answer.
    async fn begin(&self, query: Query, accept: &'static str) -> Result<Body, ApiError> {
        let path = format!("{}{}", self.sink.kind().path(&self.options.namespace, ""), query.as_str());
        let answer = tokio::time::timeout(WATCH_START, self.client.send_as(Method::GET, &path, None, accept))
            .await
            .map_err(|_| TransportError::TimedOut(WATCH_START))??;
        Ok(answer.into_body())
    }

    /// What lists and watches ask for. A server that cannot leave the rest out sends whole objects, which read as well.
    fn accept(&self) -> (&'static str, &'static str) {
        if self.options.metadata_only { (HEADER_LIST, HEADER) } else { (JSON, JSON) }
    }

    /// Takes one line of the watch in.
    fn event(&mut self, line: &Bytes) -> Result<(), ApiError> {
        let event: Event = serde_json::from_slice(line).map_err(ApiError::Decode)?;
        let text = event.object.get();
        if event.kind == "ERROR" {
            let status: Status = serde_json::from_str(text).map_err(ApiError::Decode)?;
            return Err(classify(status, None));
        }
        if event.kind == "BOOKMARK" {
            let version = header(text)?.resource_version;
            self.progressed |= self.told.version() != Some(&version);
            self.reached(&version, true, false);
            return Ok(());
        }
        let Some(object) = self.read(text) else { return self.unreadable(&event.kind, text) };
        let meta = object.meta();
        let (version, ns, name) = (meta.resource_version.clone(), meta.namespace.clone(), meta.name.clone());
        if !self.told.is_news(&version, &ns, &name) {
            return Ok(());
        }
        self.progressed = true;
        match event.kind.as_ref() {
            "ADDED" | "MODIFIED" => self.sink.apply(object),
            "DELETED" => {
                self.sink.remove(&ns, &name, Some(object));
            }
            _ => {}
        }
        // A transaction that wrote several objects tells each of them with the same revision.
        self.reached(&version, false, false);
        Ok(())
    }

    /// An object that does not decode cannot be told, however it was before.
    fn unreadable(&mut self, kind: &str, text: &str) -> Result<(), ApiError> {
        let meta = header(text)?;
        if self.told.is_news(&meta.resource_version, &meta.namespace, &meta.name) {
            if kind == "DELETED" && !self.sink.remove(&meta.namespace, &meta.name, None) {
                self.told.forget();
                return Ok(());
            }
            self.progressed = true;
            self.reached(&meta.resource_version, false, false);
        }
        Ok(())
    }

    /// An object that does not decode is told to the log and left out; it does not hide the others.
    fn read(&self, text: &str) -> Option<Entry> {
        let read = (self.sink.decode())(text);
        if let Err(error) = &read {
            tracing::error!(kind = self.sink.kind().plural, %error, "an object cannot be read");
        }
        read.ok()
    }

    fn reached(&mut self, version: &str, whole: bool, synced: bool) {
        let revision = version.parse().unwrap_or(0);
        if whole {
            self.told.all_up_to(version);
        }
        self.sink.reached(revision, whole, synced);
        self.count(|m, label| m.revision.get_or_create(label).set(revision));
    }

    fn count<R>(&self, count: impl FnOnce(&crate::metrics::InformerFamilies, &KindLabel) -> R) {
        if let Some(metrics) = &self.options.metrics {
            drop(count(metrics.informers(), &KindLabel { kind: self.sink.kind().plural.to_owned() }));
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn header(text: &str) -> Result<ObjectMeta, ApiError> {
    Ok(serde_json::from_str::<HeaderOnly>(text).map_err(ApiError::Decode)?.metadata)
}

#[derive(Deserialize)]
struct HeaderOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}
