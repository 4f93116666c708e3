//! The flags of `gantry hollow` and what is below it. They decide nothing.

use super::DataArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

const ABOUT: &str = "\
Each machine behaves towards the API as the node agent does: it registers with labels, resources and
conditions, renews its Lease every ten seconds, reports its pods pending, running, ready and finished,
tells Events, and deletes pods that were asked to go. Containers exist in memory only: nothing is
pulled, run or reachable.

Pods of Jobs, and all whose restartPolicy is not Always, end after a drawn time. A pod's annotations
say otherwise, also while it runs:

  gantry.dev/hollow-lifetime: 30s      its containers end so long after they started; 0 is now
  gantry.dev/hollow-exit-code: \"1\"     with this code
  gantry.dev/hollow-startup: 5s        and start so long after the pod came

SIGUSR1 pauses the reports of pods' statuses, SIGUSR2 lets them go on. The Nodes stay when it ends;
`kubectl delete nodes -l gantry.dev/machine-class` removes them. More: docs/hollow.md.";

/// A fleet, or something for it.
#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = ABOUT)]
pub struct HollowArgs {
    #[command(subcommand)]
    pub command: Option<HollowCommand>,
    #[command(flatten)]
    pub fleet: Option<FleetArgs>,
}

#[derive(Subcommand, Debug, Clone)]
pub enum HollowCommand {
    /// Make the identity that hollow machines use, and give it what agents may do
    Access(HollowAccessArgs),
    /// Print the manifests of a drawn workload, or create them at a rate
    Workload(WorkloadArgs),
    /// Print a built-in profile, to begin one's own with: fleet, services, batch, affinity or gangs
    Profile {
        #[arg(value_name = "NAME", default_value = "fleet")]
        name: String,
    },
}

#[derive(Args, Debug, Clone)]
pub struct FleetArgs {
    /// How many machines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// The kubeconfig that `gantry hollow access` made [default: pki/hollow.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Zones, racks, classes of machines, GPUs, and how pods live (YAML) [default: `gantry hollow profile`]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// What machines' classes and pods' lives are drawn from
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// The number of the first machine: further processes continue the same fleet, of at most 131,072 in all
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(..=131_071))]
    pub first: u32,
    /// Begin with the reports of pods' statuses paused
    #[arg(long)]
    pub pause_reports: bool,
    /// A watch of pods for each machine, as agents have, instead of one for all
    #[arg(long)]
    pub watch_per_node: bool,
    /// Tell no Events
    #[arg(long)]
    pub no_events: bool,
    /// HTTP/2 connections for watches, and as many for writes; Leases have one more
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub connections: u16,
    /// Statuses and deletions of pods in flight at once
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub pod_writes: u16,
    /// How long a pod's status waits for another change before it is written
    #[arg(long, default_value_t = 100, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub batch_ms: u64,
    /// Seconds between two lines about the fleet; 0: none
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub report_s: u64,
    /// The data directory: where everything is kept [env: GANTRY_DATA_DIR] [default: /var/lib/gantry]
    // The variable is read here and not by clap, to which it would be a flag of a fleet also where a subcommand is meant.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl FleetArgs {
    pub fn data_dir(&self) -> PathBuf {
        let said = self.data_dir.clone().or_else(|| std::env::var_os("GANTRY_DATA_DIR").map(PathBuf::from));
        said.unwrap_or_else(|| crate::datadir::DEFAULT.into())
    }
}

/// Run it on the machine that has the cluster's keys. The identity is the user gantry:hollow in the group system:nodes, so that its
/// requests queue where agents' do. It may create, read and update Nodes, keep Leases in kube-node-lease, read, delete and report
/// pods, and create Events; it may not create pods, read Secrets or change who may do what.
#[derive(Args, Debug, Clone)]
pub struct HollowAccessArgs {
    /// The API server, as hollow machines reach it [default: as in the administrator's kubeconfig]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Where to write the kubeconfig [default: pki/hollow.kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The administrator who creates the roles [default: this machine's]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
}

/// The same profile, seed and count give the same manifests, byte for byte. Deployments and Jobs count with all their replicas.
#[derive(Args, Debug, Clone)]
pub struct WorkloadArgs {
    /// services, batch, affinity, gangs, or a file (YAML; `gantry hollow profile batch` prints one to begin with)
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: String,
    /// What is drawn from; the objects' names carry it
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// How many pods in all
    #[arg(long, value_name = "N")]
    pub count: u64,
    /// Objects a second [default: as fast as the server takes them]
    #[arg(long, value_name = "PER-SECOND", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "out")]
    pub rate: Option<u32>,
    /// Write JSON lines there instead of creating anything; - is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Creations in flight at once
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub in_flight: u16,
    /// Who creates it [default: KUBECONFIG, or this machine's administrator]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
}
