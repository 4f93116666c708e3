//! Request and response bodies. Decides the size limit of a request body; never its format.

use super::{Outcome, Response};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use gantry_apimachinery::status::Status;
use http::{HeaderValue, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The largest request body (Kubernetes' own limit).
pub const MAX_BODY: usize = 3 * 1024 * 1024;
/// Of a body that is too large, so much more is taken and thrown away, and for so long.
const DISCARDED: usize = 16 * 1024 * 1024;
const DISCARD_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

pub const JSON: &str = "application/json";

pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()
}

/// Any transport's body as ours.
pub fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Reads a whole request body of at most [`MAX_BODY`] bytes.
pub async fn read(mut body: Body) -> Outcome<Bytes> {
    let mut first: Option<Bytes> = None;
    let mut rest: Option<BytesMut> = None;
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("reading the request body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > MAX_BODY {
            // As long as it sends, it does not hear why not: the connection's end would reach it first.
            drop(tokio::time::timeout(DISCARD_WITHIN, discard(body)).await);
            return Err(Status::request_too_large(MAX_BODY).into());
        }
        match (&mut first, &mut rest) {
            (None, _) => first = Some(data),
            (Some(head), None) => {
                let mut joined = BytesMut::with_capacity(head.len() + data.len());
                joined.extend_from_slice(head);
                joined.extend_from_slice(&data);
                rest = Some(joined);
            }
            (Some(_), Some(joined)) => joined.extend_from_slice(&data),
        }
    }
    Ok(rest.map(BytesMut::freeze).or(first).unwrap_or_default())
}

async fn discard(mut body: Body) {
    let mut left = DISCARDED;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// A response of known bytes.
pub fn respond(code: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Response {
    let mut response = http::Response::new(full(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub fn text(code: StatusCode, text: impl Into<String>) -> Response {
    let mut response = respond(code, "text/plain; charset=utf-8", text.into());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test(start_paused = true)]
    async fn who_sends_too_much_may_finish_within_bounds() {
        let check = async |chunks: usize, taken: usize| {
            let seen = Arc::new(AtomicUsize::new(0));
            let counted = seen.clone();
            let chunks = futures::stream::iter(0..chunks).map(move |_| {
                counted.fetch_add(1, Relaxed);
                Bytes::from(vec![b'x'; 1 << 20])
            });
            let refused = read(stream(chunks)).await.unwrap_err();
            assert_eq!((refused.code(), seen.load(Relaxed)), (413, taken));
        };
        check(8, 8).await;
        check(100, 20).await;
        let slow = futures::stream::iter(0..4).map(|_| Bytes::from(vec![b'x'; 1 << 20]));
        let refused = read(stream(slow.chain(futures::stream::pending()))).await.unwrap_err();
        assert_eq!(refused.code(), 413, "and nobody waits for it for ever");
    }
}
