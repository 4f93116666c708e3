//! A server for tests: a function from request to answer behind a `kube::Client`, and watches fed by hand.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::client::Client;

pub(crate) type AnswerBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

/// What came in, as a test wants to compare it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub method: String,
    pub path: String,
    pub content_type: String,
    pub body: Value,
}

/// An answer: a whole one, or a stream that the test feeds.
pub(crate) enum Answer {
    Json(u16, Value),
    Stream(mpsc::UnboundedReceiver<String>),
    Never,
}

#[derive(Clone)]
struct Server(Arc<Mutex<dyn FnMut(Seen) -> Answer + Send>>);

impl tower::Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
            let header = head.headers.get(http::header::CONTENT_TYPE);
            let seen = Seen {
                method: head.method.to_string(),
                path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                content_type: header.and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            };
            let answer = answer.lock()(seen);
            let response = match answer {
                Answer::Json(code, value) => {
                    let body = http_body_util::Full::from(value.to_string()).map_err(|never| match never {});
                    Response::builder().status(code).body(body.boxed_unsync())
                }
                Answer::Stream(lines) => {
                    let frames = futures::stream::unfold(lines, |mut lines| async {
                        let line = lines.recv().await?;
                        Some((Ok(hyper::body::Frame::data(Bytes::from(line))), lines))
                    });
                    Response::builder().body(StreamBody::new(frames.boxed()).boxed_unsync())
                }
                Answer::Never => std::future::pending().await,
            };
            response.map_err(std::io::Error::other)
        })
    }
}

/// A client whose server is `answer`.
pub(crate) fn client(answer: impl FnMut(Seen) -> Answer + Send + 'static) -> Client {
    Client::new(kube::Client::new(Server(Arc::new(Mutex::new(answer))), "default"))
}

/// A failure as the server words it.
pub(crate) fn failure(code: u16, reason: &str) -> Answer {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code});
    Answer::Json(code, status)
}
