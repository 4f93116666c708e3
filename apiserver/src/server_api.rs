//! The crate's face: make a server, start its caches, serve a listener or a caller in this process.

use crate::aggregation;
use crate::auth::UserInfo;
use crate::auth::peers::Peer;
use crate::auth::rbac::aggregation as roles;
use crate::bootstrap;
use crate::config::Config;
use crate::core::{Core, StartError, Stores};
use crate::fairness::keep;
use crate::in_process::InProcess;
use crate::pipeline::Lifetime;
use crate::presence::Presence;
use crate::server;
use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::status::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What the audit log has not taken by then, after everything else has ended, is lost.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// An API server over three stores. Clones share everything. Any number of servers may run over the same stores.
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
    lifetime: Lifetime,
}

impl ApiServer {
    pub fn new(config: Config, stores: Stores) -> Result<Self, StartError> {
        Self::with_clock(config, stores, Arc::new(SystemClock))
    }

    pub fn with_clock(config: Config, stores: Stores, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Ok(Self { core: Arc::new(Core::new(config, stores, clock)?), lifetime: Lifetime::default() })
    }

    /// Fills the caches, keeps them fed until cancelled, and makes what every cluster has. Returns once the server can answer.
    ///
    /// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
    pub fn start(&self, cancel: CancellationToken) -> futures::future::BoxFuture<'_, Result<(), Box<Status>>> {
        Box::pin(self.start_here(cancel))
    }

    async fn start_here(&self, cancel: CancellationToken) -> Result<(), Box<Status>> {
        for group in &self.core.groups {
            let (group, cancel) = (group.clone(), cancel.clone());
            tokio::spawn(async move { group.run(cancel).await });
        }
        let shutdown = self.lifetime.shutdown.clone();
        tokio::spawn(async move {
            cancel.cancelled().await;
            shutdown.cancel();
        });
        for group in &self.core.groups {
            group.wait_ready().await;
        }
        let (core, shutdown) = (self.core.clone(), self.lifetime.shutdown.clone());
        tokio::spawn(crate::custom::run(core, shutdown.clone()));
        if self.core.oidc.is_some() {
            let (core, shutdown) = (self.core.clone(), shutdown.clone());
            tokio::spawn(async move {
                if let Some(oidc) = &core.oidc {
                    oidc.run(shutdown).await;
                }
            });
        }
        tokio::spawn(crate::quota::run(self.core.clone(), shutdown));
        self.core.custom.ready().await;
        let mut tries = 0;
        loop {
            match bootstrap::run(&self.core).await {
                Ok(()) => break,
                // The store may have no leader yet.
                Err(status) if matches!(status.code(), 503 | 504) && tries < 60 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(status) => return Err(status),
            }
        }
        let (core, shutdown) = (self.core.clone(), self.lifetime.shutdown.clone());
        let mut presence = Presence::default();
        presence.tell(&core).await?;
        tokio::spawn(async move { presence.run(&core, shutdown).await });
        let (core, shutdown) = (self.core.clone(), self.lifetime.shutdown.clone());
        tokio::spawn(async move { roles::run(&core, shutdown).await });
        let (core, shutdown) = (self.core.clone(), self.lifetime.shutdown.clone());
        tokio::spawn(async move { keep::run(&core, shutdown).await });
        tokio::spawn(aggregation::run(self.core.clone(), self.lifetime.shutdown.clone()));
        Ok(())
    }

    /// Serves HTTPS until cancelled; returns when requests have ended and the audit log is written, within a bounded time. See [`server_config`] for the TLS configuration that it expects.
    ///
    /// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
    pub fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        cancel: CancellationToken,
    ) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(self.serve_here(listener, tls, cancel))
    }

    async fn serve_here(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>, cancel: CancellationToken) {
        server::serve(self.core.clone(), listener, tls, cancel).await;
        if let Some(audit) = &self.core.audit {
            let flushed = tokio::time::timeout(FLUSH_WITHIN, audit.flush()).await;
            if flushed.is_err() {
                tracing::warn!("the audit log takes nothing: the last events are lost");
            }
        }
    }

    /// Other numbers of this process to show at `/metrics`, in Prometheus' text form. Once only.
    pub fn shows(&self, others: impl Fn() -> String + Send + Sync + 'static) {
        self.core.metrics.show(Box::new(others));
    }

    /// The way in for a component of this process, with its own identity through every gate.
    pub fn in_process(&self, user: UserInfo) -> InProcess {
        InProcess { core: self.core.clone(), peer: Arc::new(Peer::user(user)), lifetime: self.lifetime.clone() }
    }

    pub fn core(&self) -> &Core {
        &self.core
    }
}

/// TLS for [`ApiServer::serve`]: both HTTP versions, and client certificates of `client_ca` when they are offered. PEM texts.
pub fn server_config(cert: &str, key: &str, client_ca: &str) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    use rustls::server::WebPkiClientVerifier;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    let pem_error = |error: rustls_pki_types::pem::Error| rustls::Error::General(error.to_string());
    let certs =
        |text: &str| CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>().map_err(pem_error);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certs(client_ca)? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(pem_error)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certs(cert)?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
