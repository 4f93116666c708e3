//! The loop of the node proxy: a change of a Service or EndpointSlice → new ruleset → difference → one transaction.
//!
//! It owns the kernel's table and the copy on disk. Rules stay when it ends; the next one starts from what the kernel
//! holds, so that a restart changes nothing that need not change.

use crate::compile::compile;
use crate::discovery::Discovery;
use crate::model::{EndpointSlice, Service};
use crate::nft::{Layout, NftError, Table};
use crate::ruleset::{Ruleset, diff, stale_flows};
use crate::{Config, conntrack, routes};
use gantry_apimachinery::kinds;
use gantry_client::{Change, Client, Informer, InformerOptions, Receiver};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Changes that come together are applied together.
const GATHER: Duration = Duration::from_millis(5);
/// The copy is written this often at most.
const COPY_EVERY: Duration = Duration::from_millis(250);
/// Everything is compared with the kernel this often, whoever else may have changed it.
const RESYNC: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller starts the proxy again.
    #[error("the watch of {0} ended")]
    WatchEnded(&'static str),
}

/// Runs until cancelled. The rules stay.
///
/// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
pub fn run(
    config: Config,
    client: Client,
    cancel: CancellationToken,
) -> futures::future::BoxFuture<'static, Result<(), Error>> {
    let routing = routes::run(config.node_name.clone(), config.ip.clone(), client.clone(), cancel.clone());
    let stop = cancel.clone();
    Box::pin(async move {
        tokio::select! {
            ended = run_here(config, client, cancel) => ended,
            () = routing => if stop.is_cancelled() { Ok(()) } else { Err(Error::WatchEnded("nodes")) },
        }
    })
}

async fn run_here(config: Config, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    forward_packets(Path::new("/proc/sys/net/ipv4/ip_forward"));
    let services = Informer::start(client.clone(), &kinds::SERVICE, InformerOptions::all(), cancel.clone());
    let slices = Informer::start(client, &kinds::ENDPOINT_SLICE, InformerOptions::all(), cancel.clone());
    let (mut service_changes, mut slice_changes) = (services.subscribe(), slices.subscribe());
    let mut agent = Agent::new(config);
    agent.start_from_copy().await;
    let synced = async { tokio::join!(services.synced(), slices.synced()) };
    if cancel.run_until_cancelled(synced).await.is_none() {
        return Ok(());
    }
    let mut due = Due { kernel: Some(Instant::now()), copy: Some(Instant::now()), last_copy: Instant::now() };
    let mut resync = Instant::now() + RESYNC;
    loop {
        let next = [due.kernel, due.copy, Some(resync)].into_iter().flatten().min().unwrap_or(resync);
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            changed = changed(&mut service_changes) => changed.then(|| due.change()).ok_or(Error::WatchEnded("services"))?,
            changed = changed(&mut slice_changes) => changed.then(|| due.change()).ok_or(Error::WatchEnded("endpointslices"))?,
            () = tokio::time::sleep_until(next) => {
                let now = Instant::now();
                if now >= resync {
                    agent.forget_kernel();
                    due.kernel.get_or_insert(now);
                    resync = now + RESYNC;
                }
                let copy = || Discovery { services: services.list(), slices: slices.list() };
                if due.kernel.is_some_and(|at| now >= at) {
                    due.kernel = agent.program(&copy()).await.then_some(Instant::now() + RETRY);
                }
                if due.copy.is_some_and(|at| now >= at) {
                    agent.write_copy(copy()).await;
                    due.copy = None;
                    due.last_copy = now;
                }
            }
        }
    }
}

/// When the kernel and the copy have to be brought up to date; `None`: they are.
struct Due {
    kernel: Option<Instant>,
    copy: Option<Instant>,
    last_copy: Instant,
}

impl Due {
    fn change(&mut self) {
        let now = Instant::now();
        let soon = now + GATHER;
        self.kernel = Some(self.kernel.map_or(soon, |at| at.min(soon)));
        // Names of new Services should resolve at once; a flood of changes is written a few times a second.
        self.copy.get_or_insert((now + 2 * GATHER).max(self.last_copy + COPY_EVERY));
    }
}

/// False when the informer has ended. Which object changed does not matter: the whole is compiled again.
async fn changed<T>(changes: &mut Receiver<T>) -> bool
where
    T: Send + Sync + 'static,
{
    let first: Option<Change<T>> = changes.recv().await;
    while changes.try_recv().is_some() {}
    first.is_some()
}

struct Agent {
    node: String,
    table: Table,
    conntrack: PathBuf,
    copy: PathBuf,
    /// What the kernel holds; `None` when it has to be read.
    kernel: Option<Ruleset>,
}

impl Agent {
    fn new(config: Config) -> Self {
        let layout = Layout {
            table: config.table,
            service_cidr: config.service_cidr,
            cluster_cidr: config.cluster_cidr,
            masquerade_egress: config.masquerade_egress,
        };
        Self {
            node: config.node_name,
            table: Table::new(config.nft, layout),
            conntrack: config.conntrack,
            copy: config.discovery,
            kernel: None,
        }
    }

    fn forget_kernel(&mut self) {
        self.kernel = None;
    }

    /// After a reboot without the control plane, the last copy is better than no rules.
    async fn start_from_copy(&mut self) {
        match Discovery::read(&self.copy) {
            Ok(Some(copy)) => {
                self.program(&copy).await;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "starting without the last copy"),
        }
    }

    /// Brings the kernel to what `copy` says. True when it has to be tried again.
    async fn program(&mut self, copy: &Discovery) -> bool {
        let services = copy.services.iter().map(AsRef::<Service>::as_ref);
        let slices = copy.slices.iter().map(AsRef::<EndpointSlice>::as_ref);
        let wanted = compile(services, slices, &self.node);
        match self.transact(&wanted).await {
            Ok(old) => {
                self.kernel = Some(wanted);
                if let (Some(old), Some(new)) = (old, &self.kernel) {
                    conntrack::forget(&self.conntrack, &stale_flows(&old, new)).await;
                }
                false
            }
            Err(error) => {
                self.kernel = None;
                tracing::error!(error = %chain(&error), "programming Services failed; it is tried again");
                true
            }
        }
    }

    /// Returns what the kernel held before, unless the table was made anew.
    async fn transact(&mut self, wanted: &Ruleset) -> Result<Option<Ruleset>, NftError> {
        let old = match self.kernel.take() {
            Some(known) => Some(known),
            None => self.table.read().await?,
        };
        let Some(old) = old else {
            self.table.rebuild(wanted).await?;
            return Ok(None);
        };
        let ops = diff(&old, wanted);
        if !ops.is_empty() {
            self.table.apply(&ops).await?;
            tracing::debug!(steps = ops.len(), "Services are programmed");
        }
        Ok(Some(old))
    }

    async fn write_copy(&self, copy: Discovery) {
        let path = self.copy.clone();
        match tokio::task::spawn_blocking(move || copy.write(&path)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = %chain(&error), "node DNS keeps the copy before"),
            Err(error) => tracing::error!(%error, "writing the copy panicked"),
        }
    }
}

/// Pods are routed, so the node has to forward.
fn forward_packets(switch: &Path) {
    let on = std::fs::read_to_string(switch).is_ok_and(|text| text.trim() == "1");
    if !on && let Err(error) = std::fs::write(switch, "1") {
        tracing::error!(%error, "{} cannot be set to 1: pods reach nobody", switch.display());
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
