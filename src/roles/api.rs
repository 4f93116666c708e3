//! The API server of this process on its stores: what it is told, where it listens, and the way in for the components
//! beside it. It decides nothing about requests.

use super::access;
use crate::cli::{AuditArgs, AuthenticationArgs, AuthorizationArgs};
use crate::pki::{self, Pki};
use crate::problem::Problem;
use anyhow::Context;
use gantry_apiserver::{ApiServer, Config, FrontProxyPem, KubeletClientPem, Stores, UserInfo, server_config};
use gantry_client::{Client, Metrics};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What differs from one API server to another.
pub struct Plan {
    pub listen: SocketAddr,
    /// Where others reach this server.
    pub advertise: IpAddr,
    pub service_cidr: String,
    pub dns_ip: IpAddr,
    /// How much it does at once.
    pub seats: usize,
    pub cluster_domain: String,
    pub access: Option<(AuthenticationArgs, AuthorizationArgs, AuditArgs)>,
}

/// A server that answers. Clones share everything.
#[derive(Clone)]
pub struct Api {
    server: ApiServer,
    serving: TaskTracker,
}

impl Api {
    /// Fills the caches, listens, and returns when requests are answered; serves until `cancel`.
    pub async fn start(plan: &Plan, keys: &Pki, stores: Stores, cancel: CancellationToken) -> anyhow::Result<Self> {
        let config = config(plan, keys)?;
        let authorities = access::accepted_authorities(&read(&keys.certificate(pki::CLUSTER_CA))?, &config);
        let server = ApiServer::new(config, stores)?;
        let tls =
            server_config(&read(&keys.certificate(pki::APISERVER))?, &read(&keys.key(pki::APISERVER))?, &authorities)?;
        let listener = TcpListener::bind(plan.listen).await.with_context(|| format!("listening on {}", plan.listen))?;
        server.start(cancel.clone()).await.map_err(|status| anyhow::anyhow!("{status}"))?;
        let (serving, serves) = (TaskTracker::new(), server.clone());
        serving.spawn(async move { serves.serve(listener, tls, cancel).await });
        serving.close();
        Ok(Self { server, serving })
    }

    /// Returns, after the cancellation, when open requests have ended and the audit log is written. The server bounds both.
    pub async fn ended(&self) {
        self.serving.wait().await;
    }

    /// Shows these numbers at `/metrics` beside the server's own.
    pub fn shows(&self, metrics: Metrics) {
        self.server.shows(move || metrics.lines());
    }

    /// A client of this process with an identity of its own; it passes every gate of the server.
    pub fn client(&self, user: &str, groups: &[&str]) -> Client {
        let service = self.server.in_process(UserInfo::new(user, groups));
        Client::new(kube::Client::new(service, "default")).with_user_agent(user.rsplit(':').next().unwrap_or(user))
    }
}

fn config(plan: &Plan, keys: &Pki) -> anyhow::Result<Config> {
    let issuer = format!("https://kubernetes.default.svc.{}", plan.cluster_domain);
    let IpAddr::V4(dns) = plan.dns_ip else {
        return Err(Problem::new(format!("--dns-ip {}: an IPv4 address is needed", plan.dns_ip)).into());
    };
    let mut config = Config {
        service_cidr: network(&plan.service_cidr)?,
        reserved_ips: vec![dns],
        seats: plan.seats,
        advertise: Some((plan.advertise, plan.listen.port())),
        audience: issuer.clone(),
        issuer,
        token_private_key: read(&keys.service_account_key())?,
        token_public_key: read(&keys.service_account_public_key())?,
        kubelet: Some(KubeletClientPem {
            ca: read(&keys.certificate(pki::CLUSTER_CA))?,
            cert: read(&keys.certificate(pki::KUBELET_CLIENT))?,
            key: read(&keys.key(pki::KUBELET_CLIENT))?,
        }),
        client_ca: read(&keys.certificate(pki::CLUSTER_CA))?,
        front_proxy: front_proxy(keys)?,
        ..Config::default()
    };
    if let Some((who, what, audit)) = &plan.access {
        access::apply(who, what, &mut config)?;
        config.audit = access::audit(audit)?;
    }
    Ok(config)
}

/// Keys that were made before there was a front proxy lack its own: then other servers are called without.
fn front_proxy(keys: &Pki) -> anyhow::Result<Option<FrontProxyPem>> {
    let cert = keys.certificate(pki::FRONT_PROXY_CLIENT);
    if !cert.exists() {
        let missing = cert.display();
        tracing::warn!(%missing, "servers behind APIServices cannot tell that requests come from here: `gantry pki init` makes it");
        return Ok(None);
    }
    let ca = read(&keys.certificate(pki::FRONT_PROXY_CA))?;
    Ok(Some(FrontProxyPem { ca, cert: read(&cert)?, key: read(&keys.key(pki::FRONT_PROXY_CLIENT))? }))
}

/// The seats of a server on this machine: what all of them together do takes each CPU a few hundredths of a second, so that nobody
/// waits longer than that for who came before. Beyond six CPUs Kubernetes' number.
pub fn seats_here() -> usize {
    const EACH_CPU: usize = 100;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    (cpus * EACH_CPU).min(Config::default().seats)
}

fn network(cidr: &str) -> Result<(Ipv4Addr, u8), Problem> {
    let wrong = || Problem::new(format!("{cidr:?} is not an IPv4 range such as 10.96.0.0/16"));
    let (base, length) = cidr.split_once('/').ok_or_else(wrong)?;
    Ok((base.parse().map_err(|_| wrong())?, length.parse().map_err(|_| wrong())?))
}

/// A PEM file as text.
pub fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
