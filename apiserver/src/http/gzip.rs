//! Compressed answers. Decides which are worth it; their content is not looked at.

use super::Response;
use super::body::{Body, BoxError};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, header};
use http_body::Body as _;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use hyper::body::Frame;
use std::io::Write;

/// Shorter answers are sent faster than they are compressed (Kubernetes' threshold).
const WORTH_IT: u64 = 128 * 1024;

/// What shrinks.
const COMPRESSED: [&str; 4] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain"];

/// Whether the client takes gzip.
pub fn accepted(headers: &HeaderMap) -> bool {
    let entries = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    entries.flat_map(|text| text.split(',')).any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        matches!(parts.next(), Some("gzip" | "*")) && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// The response, compressed as it is sent. One whose length is not known is long.
pub fn compressed(response: Response) -> Response {
    let short = response.body().size_hint().exact().is_some_and(|length| length < WORTH_IT);
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let known = COMPRESSED.iter().any(|known| kind.starts_with(known));
    if short || !known || !response.status().is_success() || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    parts.headers.remove(header::CONTENT_LENGTH);
    http::Response::from_parts(parts, gzipped(body))
}

fn gzipped(body: Body) -> Body {
    // The fastest level: JSON that repeats itself shrinks to a tenth already.
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let chunks = futures::stream::unfold(Some((BodyDataStream::new(body), encoder)), |state| async {
        let (mut data, mut encoder) = state?;
        loop {
            match data.next().await {
                Some(Ok(chunk)) => {
                    if let Err(error) = encoder.write_all(&chunk) {
                        return Some((Err(BoxError::from(error)), None));
                    }
                    let out = std::mem::take(encoder.get_mut());
                    if !out.is_empty() {
                        return Some((Ok(Frame::data(Bytes::from(out))), Some((data, encoder))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    let rest = encoder.finish().map(|rest| Frame::data(Bytes::from(rest))).map_err(BoxError::from);
                    return Some((rest, None));
                }
            }
        }
    });
    StreamBody::new(chunks).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::{JSON, respond};
    use flate2::read::GzDecoder;
    use http::StatusCode;
    use std::io::Read;

    #[tokio::test]
    async fn long_texts_are_compressed_and_come_back() {
        let long = "{\"a\":1}".repeat(40_000);
        let response = compressed(respond(StatusCode::OK, JSON, long.clone()));
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.len() < long.len() / 10);
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, long);
        let short = compressed(respond(StatusCode::OK, JSON, "{}"));
        assert!(!short.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[test]
    fn who_refuses_gets_it_plain() {
        let check = |text: &'static str, expect: bool| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]);
            assert_eq!(accepted(&headers), expect, "{text}");
        };
        check("gzip, deflate", true);
        check("deflate;q=1, gzip;q=0.5", true);
        check("gzip;q=0", false);
        check("br", false);
        assert!(!accepted(&HeaderMap::new()));
    }
}
