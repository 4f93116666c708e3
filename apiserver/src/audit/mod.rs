//! The audit log: who did what, as a policy wants it written down. `policy` decides what, `record` how one request reads, `log` where it
//! goes and what happens when there is no room. Bodies are written only where the policy's level says so.

mod log;
mod policy;
mod record;

pub use log::LogConfig;
pub use policy::{Level, Stage};
pub use record::Record;

use crate::config::AuditConfig;
use crate::core::{Core, StartError};
use crate::http::Response;
use crate::http::body::{Body, full};
use crate::http::negotiate::{self, Input};
use crate::http::target::ResourcePath;
use crate::rest::decode::schema_type;
use bytes::Bytes;
use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::schema::decode::untyped;
use gantry_apimachinery::time::Timestamp;
use gantry_apimachinery::{protobuf, status::Status};
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use log::Log;
use policy::Policy;
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Longer answers are not written down: a note says so.
const MOST_ANSWER: u64 = 1 << 20;
const OMITTED: &str = "audit.gantry.dev/response-object-omitted";

pub struct Audit {
    policy: Policy,
    log: Log,
    clock: Arc<dyn Clock>,
}

impl Audit {
    pub fn new(
        config: &AuditConfig,
        clock: Arc<dyn Clock>,
        written: Counter,
        lost: Counter,
    ) -> Result<Self, StartError> {
        let policy = Policy::read(&config.policy).map_err(|why| StartError::Audit(format!("the policy: {why}")))?;
        let path = config.log.path.display();
        let log = Log::open(&config.log, clock.clone(), written, lost);
        let log = log.map_err(|error| StartError::Audit(format!("{path}: {error}")))?;
        Ok(Self { policy, log, clock })
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until everything so far is in the file.
    pub async fn flush(&self) {
        self.log.flush().await;
    }
}

/// Writes down what a request sent.
pub fn sent(record: &Record, core: &Core, path: &ResourcePath, headers: &HeaderMap, body: &Bytes) {
    if record.level() == Level::None || body.is_empty() {
        return;
    }
    let object = match negotiate::input(headers) {
        Ok(Input::Protobuf) => {
            let Some(kind) = core.registry().kind(&path.group, &path.version, &path.resource) else { return };
            let (group, version, name) = match kind.subresource(&path.subresource) {
                Some(sub) => (sub.group, sub.version, sub.kind),
                None => (kind.group, kind.version, kind.kind),
            };
            protobuf::decode(body, schema_type(group, version, name)).ok()
        }
        Ok(_) => untyped(body).ok(),
        Err(_) => None,
    };
    if let Some(object) = object {
        record.sent(object);
    }
}

/// Writes down what is answered, and hands the answer back. What lasts is complete when its body ends.
pub async fn answered(record: &Arc<Record>, response: Response, failure: Option<&Status>, lasts: bool) -> Response {
    record.outcome(response.status().as_u16(), failure);
    if lasts && failure.is_none() {
        record.write(Stage::ResponseStarted, None);
        let record = record.clone();
        return response.map(|body| Body::new(Lasting { body, record }));
    }
    if record.level() < Level::RequestResponse {
        record.write(Stage::ResponseComplete, None);
        return response;
    }
    let json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let short = response.body().size_hint().exact().is_some_and(|length| length <= MOST_ANSWER);
    if !json || !short {
        record.write(Stage::ResponseComplete, Some((OMITTED, "it is no JSON, or longer than 1 MiB")));
        return response;
    }
    let (parts, body) = response.into_parts();
    // Its length is known, so it is here already.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    if let Ok(object) = serde_json::from_slice::<Value>(&bytes) {
        record.answered(object);
    }
    record.write(Stage::ResponseComplete, None);
    http::Response::from_parts(parts, full(bytes))
}

/// A body whose end is the request's.
struct Lasting {
    body: Body,
    record: Arc<Record>,
}

impl http_body::Body for Lasting {
    type Data = Bytes;
    type Error = crate::http::body::BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.record.write(Stage::ResponseComplete, None);
    }
}
