//! A little HTTPS server that answers as a test says. Decides nothing about what is right.

use crate::wire::Pki;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

pub struct Little {
    pub url: String,
    asked: Arc<AtomicUsize>,
    /// Gone with it: nobody listens then.
    _stop: DropGuard,
}

impl Little {
    /// `answer`: from the path and the body (null without one). `pki` vouches for `127.0.0.1`.
    pub async fn start(
        pki: &Pki,
        answer: impl Fn(&str, Value) -> (u16, Value) + Clone + Send + Sync + 'static,
    ) -> Self {
        let pair = pki.issue("little", "none");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let chain = vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let (asked, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let (count, stopped) = (asked.clone(), stop.clone());
        tokio::spawn(stopped.clone().run_until_cancelled_owned(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, answer, count) = (acceptor.clone(), answer.clone(), count.clone());
                let serving = async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let serve = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (answer, count) = (answer.clone(), count.clone());
                        async move {
                            count.fetch_add(1, Ordering::SeqCst);
                            let path = request.uri().path().to_owned();
                            let body = request.into_body().collect().await?.to_bytes();
                            let (code, value) = answer(&path, serde_json::from_slice(&body).unwrap_or(Value::Null));
                            let mut response = http::Response::new(Full::new(Bytes::from(value.to_string())));
                            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                            Ok::<_, hyper::Error>(response)
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), serve).await;
                };
                tokio::spawn(stopped.clone().run_until_cancelled_owned(serving));
            }
        }));
        Self { url, asked, _stop: stop.drop_guard() }
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
