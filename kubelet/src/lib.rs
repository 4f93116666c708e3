//! The node agent: runs the pods that the API binds to this machine, reports them, and keeps them running when the
//! control plane is away. It never decides which pods exist.

pub mod agent;
pub mod api;
pub mod build;
pub mod cgroup;
pub mod checkpoint;
pub mod config;
pub mod guard;
pub mod hollow;
pub mod node;
pub mod pod;
mod probe;
mod registry;
pub mod runtime;
pub mod server;
mod services;
pub mod volumes;

use std::sync::Arc;

use gantry_client::{Client, EventRecorder};
use parking_lot::RwLock;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use config::{Config, TlsFiles};

use agent::{Agent, ApiObjects, Shared};
use build::dns::Resolver;
use runtime::{CriRuntime, Runtime};

/// Why the agent could not start. The caller starts it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the agent's directory {0} cannot be used")]
    Root(std::path::PathBuf, #[source] std::io::Error),
}

/// Images pulled at once.
const PULLS: usize = 4;

/// Runs the node agent until cancelled. Containers keep running afterwards; the next run adopts them.
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
    let root_error = |e| Error::Root(config.root.clone(), e);
    std::fs::create_dir_all(&config.root).map_err(root_error)?;
    let checkpoints = Arc::new(checkpoint::Checkpoints::open(&config.root).map_err(root_error)?);
    let runtime: Arc<dyn Runtime> =
        config.runtime.clone().unwrap_or_else(|| Arc::new(CriRuntime::new(&config.runtime_socket)));
    let facts = node::MachineFacts::read(&config.root);
    let mut machine = build::Machine::new(&config);
    machine.memory_capacity = facts.memory_bytes;
    machine.cpu_capacity_milli = facts.cpus * 1000;
    machine.resolver = Resolver::parse(&std::fs::read_to_string(&config.resolv_conf).unwrap_or_default());
    if let Ok(Some(membership)) = checkpoints.membership() {
        machine.cluster = membership.cluster;
    }
    let (out, inbox) = mpsc::channel(agent::QUEUE);
    let recorder = EventRecorder::new(client.clone(), "kubelet", config.node_name.clone());
    let stop = cancel.child_token();
    let runtime_name = runtime.version().await.map_or_else(|_| "containerd".to_owned(), |v| v.name);
    let pod_facts = pod::Facts { runtime: runtime_name, host_ips: machine.host_ips.clone() };
    let shared = Arc::new(Shared {
        objects: Arc::new(ApiObjects::new(client.clone(), out.clone(), checkpoints.clone(), stop.clone())),
        reporter: agent::Reporter::new(client.clone()),
        cgroups: cgroup::detect(&config.cgroup_fs),
        views: agent::Views::default(),
        cluster: watch::Sender::new(None),
        pulls: Semaphore::new(PULLS),
        machine: RwLock::new(machine),
        recorder: recorder.clone(),
        runtime: runtime.clone(),
        client: client.clone(),
        config: config.clone(),
        cancel: stop.clone(),
        checkpoints,
        out,
    });
    let node = node::NodeAgent { config, client, runtime, facts, recorder, cancel: stop.clone() };
    tokio::spawn(node.run(shared.cluster.subscribe()));
    tokio::spawn(server::run(shared.clone()));
    Agent::new(shared, pod_facts).run(inbox).await;
    stop.cancel();
    Ok(())
}
