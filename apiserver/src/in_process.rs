//! The server as a service inside this process. Decides nothing: a caller here has an identity and passes every gate like one
//! that came over the network.

use crate::auth::peers::Peer;
use crate::core::Core;
use crate::http::body::{Body, BoxError, boxed};
use crate::pipeline::{Lifetime, handle};
use bytes::Bytes;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One identity's way in. Cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    pub(crate) core: Arc<Core>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) lifetime: Lifetime,
}

impl<B> tower::Service<http::Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        self.clone().answer(request.map(boxed))
    }
}

impl InProcess {
    /// Not generic, so that this crate compiles the whole pipeline once, whatever body a caller has.
    fn answer(
        self,
        request: http::Request<Body>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>> {
        Box::pin(async move { Ok(handle(&self.core, &self.peer, &self.lifetime, request).await) })
    }
}
