//! The controllers: one reconcile loop per kind, each a pure core that turns what it observes into a plan, around one shared
//! edge that watches and writes. Decides how the cluster follows its users' wishes; keeps no state that the store does not
//! have, and talks to nothing but the API.

mod edge;
mod objects;
mod owner;
mod plan;
mod revision;
mod status;

mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslice_mirroring;
mod garbage_collector;
mod job;
mod namespace;
mod node_ipam;
mod node_lifecycle;
mod pod_gc;
mod policy_status;
mod replicaset;
mod root_ca;
mod service_account;
mod storage_protection;
mod taint_eviction;

#[cfg(test)]
mod sim;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gantry_apimachinery::clock::SystemClock;
use gantry_client::leader::Timing;
use gantry_client::{Client, Metrics};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use edge::{Env, Informers, drive};
pub use node_ipam::{Cidr, Ranges};
pub use plan::{Announce, Note, Plan, Step, Verb, Write};

/// What the controllers need to know beside the API.
#[derive(Clone)]
pub struct Config {
    /// The addresses of all pods, and each machine's share of them.
    pub ranges: Ranges,
    /// PEM of the certificate that signs the API server's; published to every namespace.
    pub root_ca_pem: String,
    /// Finished pods that are kept before the oldest are removed.
    pub terminated_pods_kept: usize,
    /// A machine whose Lease is silent for this long is unreachable.
    pub node_silence_s: u64,
    /// Compete for this Lease first. `None`: this is the only instance.
    pub leader_election: Option<LeaderElection>,
    pub metrics: Metrics,
}

/// The Lease that one of several instances holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    /// Unique to this process.
    pub identity: String,
}

impl Default for Config {
    fn default() -> Self {
        let cluster = Cidr::parse("10.244.0.0/16").expect("a literal range");
        Config {
            ranges: Ranges::new(cluster, 24).expect("a /16 has room for /24s"),
            root_ca_pem: String::new(),
            terminated_pods_kept: 12_500,
            node_silence_s: 40,
            leader_election: None,
            metrics: Metrics::new(),
        }
    }
}

/// Why the controllers stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller restarts them.
    #[error("a controller ended although nobody stopped it")]
    Ended,
}

type Start = fn(Arc<Env>, CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Every controller there is. Adding one is a folder and a row.
const CONTROLLERS: &[Start] = &[
    |env, cancel| Box::pin(drive::<node_ipam::NodeIpam>(env, cancel)),
    |env, cancel| Box::pin(drive::<service_account::ServiceAccounts>(env, cancel)),
    |env, cancel| Box::pin(drive::<root_ca::RootCa>(env, cancel)),
    |env, cancel| Box::pin(drive::<replicaset::ReplicaSets>(env, cancel)),
    |env, cancel| Box::pin(drive::<deployment::Deployments>(env, cancel)),
    |env, cancel| Box::pin(drive::<endpointslice::EndpointSlices>(env, cancel)),
    |env, cancel| Box::pin(drive::<garbage_collector::GarbageCollector>(env, cancel)),
    |env, cancel| Box::pin(drive::<namespace::Namespaces>(env, cancel)),
    |env, cancel| Box::pin(drive::<node_lifecycle::NodeLifecycle>(env, cancel)),
    |env, cancel| Box::pin(drive::<taint_eviction::TaintEviction>(env, cancel)),
    |env, cancel| Box::pin(drive::<job::Jobs>(env, cancel)),
    |env, cancel| Box::pin(drive::<daemonset::DaemonSets>(env, cancel)),
    |env, cancel| Box::pin(drive::<endpoints::EndpointsController>(env, cancel)),
    |env, cancel| Box::pin(drive::<endpointslice_mirroring::EndpointSliceMirroring>(env, cancel)),
    |env, cancel| Box::pin(drive::<pod_gc::PodGc>(env, cancel)),
    |env, cancel| Box::pin(drive::<disruption::Disruptions>(env, cancel)),
    |env, cancel| Box::pin(drive::<policy_status::PolicyStatus>(env, cancel)),
    |env, cancel| Box::pin(drive::<storage_protection::StorageProtection>(env, cancel)),
];

/// Runs all controllers until cancelled; with leader election, whenever this instance leads.
///
/// # Errors
/// When a controller ends by itself.
///
/// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
pub fn run(
    config: Config,
    client: Client,
    cancel: CancellationToken,
) -> futures::future::BoxFuture<'static, Result<(), Error>> {
    Box::pin(run_here(config, client, cancel))
}

async fn run_here(config: Config, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    let Some(election) = config.leader_election.clone() else { return lead(config, client, cancel).await };
    let LeaderElection { namespace, name, identity } = election;
    let (work, config) = (client.clone(), Arc::new(config));
    let task = move |token| {
        let (config, client) = ((*config).clone(), work.clone());
        async move { drop(lead(config, client, token).await) }
    };
    let lease = (&*namespace, &*name);
    let led = gantry_client::leader::run(client, lease, &identity, Timing::USUAL, cancel.clone(), task);
    led.await;
    if cancel.is_cancelled() { Ok(()) } else { Err(Error::Ended) }
}

async fn lead(config: Config, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    let informers = Informers::start(&client, &config.metrics, &cancel);
    informers.index();
    if cancel.run_until_cancelled(informers.synced()).await.is_none() {
        return Ok(());
    }
    let env = Arc::new(Env { client, informers, clock: Arc::new(SystemClock), config });
    let mut loops = JoinSet::new();
    for start in CONTROLLERS {
        loops.spawn(start(env.clone(), cancel.clone()));
    }
    let mut unexpected = false;
    while loops.join_next().await.is_some() {
        if !cancel.is_cancelled() {
            unexpected = true;
            cancel.cancel();
        }
    }
    if unexpected { Err(Error::Ended) } else { Ok(()) }
}
