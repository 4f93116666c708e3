//! Machines that only pretend: thousands of them in one process, each with the real agent's behaviour towards the API and a runtime
//! in memory. Pods go through the agent's own state machine (`pod::step`); Nodes, Leases and statuses are the agent's own bodies.
//!
//! What is decided is pure: `machine` (one Node), `process` (one pod and its runtime), `lane` (what waits to be written) and `fleet`
//! (all of them). The edge is `run` (informers, clocks, tasks) and `writes` (requests).

mod fleet;
mod identity;
mod lane;
mod life;
mod machine;
mod process;
mod projection;
mod run;
mod timers;
mod writes;

#[cfg(test)]
mod tests;

pub use identity::MOST;

use gantry_client::Client;
use gantry_rehearsal::FleetProfile;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What a hollow fleet is told.
#[derive(Clone)]
pub struct HollowConfig {
    pub profile: FleetProfile,
    /// Machines' classes and pods' life times are drawn from it.
    pub seed: u64,
    pub machines: u32,
    /// The number of the first machine: several processes may share one fleet.
    pub first: u32,
    /// One watch of pods for each machine, as agents have, instead of one for all.
    pub watch_per_machine: bool,
    /// Tell Events as agents do.
    pub events: bool,
    /// A pod's status waits so long for another change before it is written.
    pub batch_ms: u64,
    /// Statuses and deletions of pods in flight.
    pub pod_writes: usize,
    /// Between two lines about how things are; 0: none.
    pub report_every_s: u64,
}

/// The connections that all machines share. Leases have their own, as they have in the agent.
#[derive(Clone)]
pub struct HollowClients {
    pub leases: Client,
    pub writes: Client,
    pub watches: Client,
}

/// Runs the machines until cancelled; while `paused` says so, no pod's status is written. The Nodes stay behind, as those of machines
/// whose agents ended.
pub fn run(
    config: HollowConfig,
    clients: HollowClients,
    paused: watch::Receiver<bool>,
    cancel: CancellationToken,
) -> futures::future::BoxFuture<'static, ()> {
    Box::pin(run::run(config, clients, paused, cancel))
}
