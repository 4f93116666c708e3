//! Node DNS: answers for the cluster's names from the last copy on disk, and passes other names on.
//!
//! It runs in the guard, so that names resolve while `gantry` is down. It never talks to the control plane.
//! Names follow the Kubernetes DNS specification 1.1.0:
//! <https://github.com/kubernetes/dns/blob/master/docs/specification.md>.

mod answer;
mod forward;
mod link;
mod server;
mod zone;

pub use answer::{Answer, Outcome, answer};
pub use zone::{Data, Zone};

use crate::discovery::Discovery;
use parking_lot::RwLock;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How soon a new copy is seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What node DNS is told.
#[derive(Clone, Debug)]
pub struct Config {
    pub discovery: PathBuf,
    pub domain: String,
    pub listen: SocketAddr,
    /// The link that carries the listening address; `None`: the address is there already.
    pub link: Option<LinkConfig>,
    /// Pods' addresses: their reverse names are answered here even when unknown.
    pub service_cidr: String,
    pub cluster_cidr: String,
    /// Resolvers for every other name; none: such names fail at once.
    pub upstreams: Vec<SocketAddr>,
}

#[derive(Clone, Debug)]
pub struct LinkConfig {
    pub name: String,
    pub ip: Ipv4Addr,
    /// As long as the service range's, so that the node has a route to virtual addresses.
    pub prefix_length: u8,
    /// The program `ip`.
    pub program: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// The caller tries again.
    #[error("node DNS cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    /// The caller tries again.
    #[error("the link {name} for node DNS cannot be made: {reason}")]
    Link { name: String, reason: String },
}

/// Serves until cancelled. The link stays.
///
/// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
pub fn serve(config: Config, cancel: CancellationToken) -> futures::future::BoxFuture<'static, Result<(), DnsError>> {
    Box::pin(serve_here(config, cancel))
}

async fn serve_here(config: Config, cancel: CancellationToken) -> Result<(), DnsError> {
    if let Some(link) = &config.link {
        link::ensure(link).await?;
    }
    let zone = Arc::new(RwLock::new(Arc::new(load(&config, None).unwrap_or_else(|| Zone::empty(&config.domain)))));
    let sockets = server::Sockets::bind(config.listen).await?;
    tracing::info!(listen = %config.listen, "node DNS answers");
    let forwarder = forward::Forwarder::new(config.upstreams.clone());
    let serving = sockets.serve(zone.clone(), forwarder, cancel.clone());
    tokio::select! {
        () = serving => {}
        () = follow(&config, &zone) => {}
        () = keep_link(config.link.as_ref()) => {}
        () = cancel.cancelled() => {}
    }
    Ok(())
}

/// Never returns, also where the address is somebody else's affair.
async fn keep_link(config: Option<&LinkConfig>) {
    match config {
        Some(config) => link::keep(config).await,
        None => std::future::pending().await,
    }
}

/// Replaces the zone whenever the copy's file was replaced. Never returns.
async fn follow(config: &Config, zone: &RwLock<Arc<Zone>>) {
    let mut seen = identity(&config.discovery);
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = identity(&config.discovery);
        if now != seen {
            seen = now;
            let before = zone.read().clone();
            if let Some(next) = load(config, Some(&before)) {
                *zone.write() = Arc::new(next);
            }
        }
    }
}

/// Every write of the copy is a new file, so its inode tells it apart; size and time are for a reused inode.
fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|m| (m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
}

/// `None` when there is nothing better than what is served.
fn load(config: &Config, before: Option<&Zone>) -> Option<Zone> {
    match Discovery::read(&config.discovery) {
        Ok(Some(copy)) => {
            let serial = before.map_or(1, |zone| zone.serial() + 1);
            let reverse = [config.service_cidr.as_str(), config.cluster_cidr.as_str()];
            Some(Zone::build(&config.domain, &copy, &reverse, serial))
        }
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(%error, "node DNS keeps what it has");
            None
        }
    }
}

/// The resolvers in the text of a resolv.conf, without `own`.
pub fn upstreams_in(resolv_conf: &str, own: Ipv4Addr) -> Vec<SocketAddr> {
    const PORT: u16 = 53;
    let servers = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let parsed = servers.filter_map(|server| server.trim().parse::<std::net::IpAddr>().ok());
    parsed.filter(|ip| *ip != std::net::IpAddr::V4(own)).map(|ip| SocketAddr::new(ip, PORT)).take(3).collect()
}
