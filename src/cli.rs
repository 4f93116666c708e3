//! The command line: every subcommand, flag and default, in the words of `--help`. It decides nothing.

mod access;
mod explain;
mod hollow;
mod metrics;

pub use access::{AuditArgs, AuthenticationArgs, AuthorizationArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use explain::{AnswerArgs, AnswerForm, ExplainArgs, FitsArgs};
pub use hollow::{FleetArgs, HollowAccessArgs, HollowArgs, HollowCommand, WorkloadArgs};
pub use metrics::MetricsArgs;
use std::net::IpAddr;
use std::path::PathBuf;

/// A container orchestrator behind the Kubernetes API.
///
/// `gantry up` runs a whole cluster on this machine in one process. The other roles run the same parts one by one, on
/// one machine or many. kubectl, Helm and every Kubernetes client work against it unchanged.
#[derive(Parser, Debug)]
#[command(name = "gantry", version, max_term_width = 110, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run all roles on this machine: store, API server, scheduler, controllers, node agent, proxy, DNS
    Up(UpArgs),
    /// Stop everything that was started from a data directory and leave nothing running
    Down(DownArgs),
    /// Show what runs from a data directory and whether it answers
    Status(DataArgs),
    /// Build or import container images without a registry
    #[command(subcommand)]
    Image(ImageCommand),
    /// Make keys, certificates and kubeconfigs
    #[command(subcommand)]
    Pki(PkiCommand),
    /// Run one store member (a replicated, revisioned map), or look after a store
    Store(Box<StoreArgs>),
    /// Run one API server on a store
    Apiserver(Box<ApiserverArgs>),
    /// Run the scheduler
    Scheduler(SchedulerArgs),
    /// Run the controllers
    Controllers(ControllersArgs),
    /// Run the node agent, with its containerd and guard
    Kubelet(KubeletArgs),
    /// Run the service proxy of this machine
    Proxy(ProxyArgs),
    /// Run the guard: node DNS, and the fence around at-most-one pods
    Guard(GuardArgs),
    /// Run machines that only pretend, thousands in one process, to see a cluster at scale
    Hollow(Box<HollowArgs>),
    /// Show objects as they are, or as they were up to five minutes ago
    Get(GetArgs),
    /// Show what changed in the last minutes, field by field
    Diff(DiffArgs),
    /// Explain what an object waits for, what keeps it from going, or why a write is refused
    Why(WhyArgs),
    /// Explain why a pod waits for a machine: what each machine lacks, whether preemption could help, its place in the queue
    Explain(ExplainArgs),
    /// Ask whether pods would find machines, and which, before they are created
    Fits(FitsArgs),
    /// Apply a folder of manifests, wait until they run, and show what runs
    Demo(DemoArgs),
    /// Print the version
    Version,
}

#[derive(Args, Debug, Clone)]
pub struct DataArgs {
    /// Where everything is kept
    #[arg(long, env = "GANTRY_DATA_DIR", default_value = crate::datadir::DEFAULT, value_name = "DIR")]
    pub data_dir: PathBuf,
}

/// Which API server to ask, and about which objects.
#[derive(Args, Debug, Clone)]
pub struct AskArgs {
    /// Who asks which API server [default: KUBECONFIG, or this machine's administrator, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub namespace: String,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    #[command(flatten)]
    pub data: DataArgs,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    Table,
    Wide,
    Yaml,
    Json,
    Name,
}

/// A time is `-2m`, `-1m30s` (so long ago) or `2026-01-31T12:00:00Z`, to about a second. The store keeps at most five minutes
/// of history, less under many writes, and each API server knows times since it started.
#[derive(Args, Debug, Clone)]
pub struct GetArgs {
    /// A resource type (pods, po, deployments.apps, …), several with commas, or TYPE/NAME
    #[arg(value_name = "TYPE")]
    pub what: String,
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// As of when [default: now]
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub at: String,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "", hide_default_value = true)]
    pub selector: String,
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: OutputForm,
    #[command(flatten)]
    pub ask: AskArgs,
}

/// A time is `-2m`, `-1m30s` (so long ago) or `2026-01-31T12:00:00Z`; see `gantry get --help`.
#[derive(Args, Debug, Clone)]
pub struct DiffArgs {
    /// A resource type [default: all but events and leases]
    #[arg(value_name = "TYPE")]
    pub what: Option<String>,
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// From when
    #[arg(long, value_name = "TIME", default_value = "-2m", allow_hyphen_values = true)]
    pub since: String,
    /// To when [default: now]
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub until: String,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "", hide_default_value = true)]
    pub selector: String,
    #[command(flatten)]
    pub ask: AskArgs,
}

#[derive(Args, Debug, Clone)]
pub struct WhyArgs {
    /// A resource type, or TYPE/NAME
    #[arg(value_name = "TYPE", required_unless_present = "filename")]
    pub what: Option<String>,
    #[arg(value_name = "NAME", conflicts_with = "filename")]
    pub name: Option<String>,
    /// A manifest that is refused (`-` reads it from standard input); it is tried without being written
    #[arg(short, long, value_name = "FILE", conflicts_with = "what")]
    pub filename: Option<PathBuf>,
    #[command(flatten)]
    pub ask: AskArgs,
}

/// The address plan; the same on every machine of a cluster.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Addresses")]
pub struct NetworkArgs {
    /// Virtual addresses of Services
    #[arg(long, default_value = "10.96.0.0/16", value_name = "CIDR")]
    pub service_cidr: String,
    /// Addresses of pods; every machine gets a /24 of it
    #[arg(long, default_value = "10.244.0.0/16", value_name = "CIDR")]
    pub cluster_cidr: String,
    /// Where node DNS answers, inside the service range
    #[arg(long, default_value = "10.96.0.10", value_name = "IP")]
    pub dns_ip: IpAddr,
    /// The domain under which Services have names
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Machine")]
pub struct NodeArgs {
    /// This machine's name in the cluster [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// This machine's address for other machines [default: the source address of the default route]
    #[arg(long, value_name = "IP")]
    pub node_ip: Option<IpAddr>,
    /// Where the node agent answers the API server
    #[arg(long, default_value_t = 10250, value_name = "PORT")]
    pub kubelet_port: u16,
    /// The cgroup that all pods live under
    #[arg(long, default_value = "/gantry", value_name = "PATH")]
    pub cgroup_root: String,
    /// Labels of this machine, as KEY=VALUE (repeatable)
    #[arg(long = "node-label", value_name = "KEY=VALUE")]
    pub node_labels: Vec<String>,
    /// The containerd program [default: found on PATH]
    #[arg(long, value_name = "FILE")]
    pub containerd: Option<PathBuf>,
    /// Let the guard start this process again when it is killed (--detach implies it)
    #[arg(long)]
    pub restart: bool,
    /// Use a containerd that is already running on this socket instead of starting one
    #[arg(long, value_name = "SOCKET")]
    pub runtime_socket: Option<PathBuf>,
    /// Do not start or watch containerd and the guard: something else does
    #[arg(long)]
    pub no_supervise: bool,
    /// The nftables table for Services
    #[arg(long, default_value = "gantry", value_name = "NAME")]
    pub nft_table: String,
    /// Who answers for names outside the cluster: auto (this machine's resolvers), none, or addresses
    #[arg(long, default_value = "auto", value_name = "auto|none|IP,...")]
    pub dns_upstream: String,
    /// The link that carries the DNS address
    #[arg(long, default_value = "gantry-dns", value_name = "NAME")]
    pub dns_link: String,
}

#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Start in the background, show progress, and return when the machine is Ready
    #[arg(long)]
    pub detach: bool,
    /// How long --detach waits for Ready
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub wait_s: u64,
    /// The address that the API server listens on
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    pub bind: IpAddr,
    /// The API server's port
    #[arg(long, default_value_t = 6443, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub api_port: u16,
    /// More names or addresses for the API server's certificate (repeatable)
    #[arg(long = "tls-san", value_name = "NAME")]
    pub tls_sans: Vec<String>,
    /// Run the control plane only: no node agent, no proxy, no guard
    #[arg(long)]
    pub no_node: bool,
    /// Keep the objects in stores that run elsewhere, of Gantry or etcd, as state=HOST:PORT,leases=HOST:PORT,events=HOST:PORT
    /// [default: in this process, below the data directory]
    #[arg(long, value_name = "ENDPOINTS")]
    pub store_endpoints: Option<String>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Args, Debug, Clone)]
pub struct DownArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Delete the data directory too: objects, images and keys
    #[arg(long)]
    pub purge: bool,
}

#[derive(Subcommand, Debug)]
pub enum ImageCommand {
    /// Import an image archive (OCI or `docker save`) into this machine's containerd
    Import {
        /// The archive
        #[arg(value_name = "FILE.tar")]
        file: PathBuf,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Build the `pause` and `testbed` images from static programs; `gantry up` imports them
    BuildTestbed {
        /// A static testbed program [default: built with cargo from --source]
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Gantry's source tree
        #[arg(long, default_value = ".", value_name = "DIR")]
        source: PathBuf,
        /// Where to put pause.tar and testbed.tar [default: `images` in the data directory]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        #[command(flatten)]
        data: DataArgs,
    },
}

#[derive(Subcommand, Debug)]
pub enum PkiCommand {
    /// Make everything that one machine with all roles needs, as `gantry up` does
    Init(Box<PkiInitArgs>),
    /// Make the certificates and kubeconfigs of one more machine
    Node {
        /// The machine's name
        name: String,
        /// The machine's address
        #[arg(long, value_name = "IP")]
        ip: IpAddr,
        /// The API server, as https://HOST:PORT
        #[arg(long, value_name = "URL")]
        server: String,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Make a client certificate and its kubeconfig
    Client {
        /// The user's name (the certificate's common name)
        user: String,
        /// The user's group (the certificate's organization)
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// The API server, as https://HOST:PORT
        #[arg(long, value_name = "URL")]
        server: String,
        /// Where to write the kubeconfig
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        data: DataArgs,
    },
}

#[derive(Args, Debug, Clone)]
pub struct PkiInitArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// The API server's port
    #[arg(long, default_value_t = 6443, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub api_port: u16,
    /// More names or addresses for the API server's and the store's certificates (repeatable)
    #[arg(long = "tls-san", value_name = "NAME")]
    pub tls_sans: Vec<String>,
}

/// How a role reaches the API server.
#[derive(Args, Debug, Clone)]
pub struct ClientArgs {
    /// The kubeconfig with this role's identity
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
}

#[derive(Args, Debug, Clone)]
pub struct SchedulerArgs {
    #[command(flatten)]
    pub client: ClientArgs,
    /// Which pods are this scheduler's, and how each of its profiles places them (docs/scheduling.md) [default: those of
    /// default-scheduler, as usual]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Decide without holding the Lease: beside other schedulers, whose pods are others
    #[arg(long)]
    pub no_leader_election: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

#[derive(Args, Debug, Clone)]
pub struct ControllersArgs {
    #[command(flatten)]
    pub client: ClientArgs,
    /// The key that signs service-account tokens
    #[arg(long, value_name = "FILE")]
    pub service_account_key: Option<PathBuf>,
    /// The authority's certificate that pods get to verify the API server
    #[arg(long, value_name = "FILE")]
    pub root_ca: Option<PathBuf>,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// A serving certificate and the authority that signs its clients.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// The serving certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_cert: PathBuf,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: PathBuf,
    /// The authority that signs client certificates (PEM)
    #[arg(long, value_name = "FILE")]
    pub client_ca: PathBuf,
}

#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub command: Option<StoreCommand>,
    #[command(flatten)]
    pub member: Option<MemberArgs>,
}

#[derive(Subcommand, Debug, Clone)]
pub enum StoreCommand {
    /// Show how members are, one line each
    Status(StoreStatusArgs),
    /// Save, look at, or restore a group's snapshot
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

/// One member of one group.
#[derive(Args, Debug, Clone)]
pub struct MemberArgs {
    /// Where this member keeps its log and snapshots
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The group that it is a member of: state, leases or events
    #[arg(long, default_value = "state", value_name = "GROUP")]
    pub group: String,
    /// This member's number, unique in its group
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub member_id: u64,
    /// Every member of a new group, this one included, as N=HOST:PORT of their peer addresses, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "N=HOST:PORT")]
    pub members: Vec<String>,
    /// This member was added to a group that exists (`etcdctl member add`): it waits to be told instead of beginning one
    #[arg(long)]
    pub join: bool,
    /// The live keys and the history together may have this many bytes; then puts are refused until room was made.
    /// 0: no quota [default: 8 GiB, leases 2 GiB, events 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub quota_bytes: Option<u64>,
    /// Where peers, API servers and etcd's clients reach this member; its metrics are at /metrics
    #[arg(long, default_value = "127.0.0.1:2380", value_name = "HOST:PORT", value_parser = resolved)]
    pub listen: std::net::SocketAddr,
    /// Without TLS, for tests and measurements: only where every member is on a loopback address
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key", "client_ca"])]
    pub insecure: bool,
    /// The certificate to serve and to call with (PEM)
    #[arg(long, value_name = "FILE", required_unless_present = "insecure", help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", required_unless_present = "insecure", help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,
    /// The authority that signs members' and clients' certificates (PEM)
    #[arg(long, value_name = "FILE", required_unless_present = "insecure", help_heading = "TLS")]
    pub client_ca: Option<PathBuf>,
}

/// An address to listen on: the first that a name stands for.
fn resolved(text: &str) -> Result<std::net::SocketAddr, String> {
    let mut found = std::net::ToSocketAddrs::to_socket_addrs(text).map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name stands for no address".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// How a command reaches members.
#[derive(Args, Debug, Clone)]
pub struct StorePkiArgs {
    /// The folder with the cluster's keys, as `gantry pki init` makes it; not needed for http:// on loopback addresses
    #[arg(long, value_name = "DIR")]
    pub pki_dir: Option<PathBuf>,
}

#[derive(Args, Debug, Clone)]
pub struct StoreStatusArgs {
    /// The members to ask, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:2380", value_name = "HOST:PORT")]
    pub endpoints: Vec<String>,
    /// How to print it
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub output: Output,
    #[command(flatten)]
    pub pki: StorePkiArgs,
}

#[derive(Subcommand, Debug, Clone)]
pub enum SnapshotCommand {
    /// Save a member's state to a file, checked and readable by its owner only
    Save {
        /// The file to write
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The member to ask
        #[arg(long, value_name = "HOST:PORT", required_unless_present = "data_dir", conflicts_with = "data_dir")]
        endpoint: Option<String>,
        /// The directory of a member that does not run, such as store/state below the data directory of `gantry up`
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        pki: StorePkiArgs,
    },
    /// Check a saved file and show what is in it
    Status {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How to print it
        #[arg(short, long, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// Make the directory of one member of a new group that begins with a saved file; do it for each member
    Restore {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The member's new directory; it must be empty or not there
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// The group: state, leases or events
        #[arg(long, default_value = "state", value_name = "GROUP")]
        group: String,
        /// The member's number
        #[arg(long, default_value_t = 1, value_name = "N")]
        member_id: u64,
        /// Every member of the new group, as N=HOST:PORT; the same for each [default: this one, alone]
        #[arg(long, value_delimiter = ',', value_name = "N=HOST:PORT")]
        members: Vec<String>,
        /// How many revisions later the new group begins: more than the old one wrote after the snapshot, so that no
        /// client takes the new revisions for old ones
        #[arg(long, default_value_t = 1_000_000_000, value_name = "N")]
        bump_revision: u64,
    },
}

#[derive(Args, Debug, Clone)]
pub struct ApiserverArgs {
    /// Where the stores are, as state=HOST:PORT,leases=HOST:PORT,events=HOST:PORT; http://… is taken on loopback addresses
    #[arg(long, value_name = "ENDPOINTS")]
    pub store_endpoints: String,
    /// The address and port to listen on
    #[arg(long, default_value = "0.0.0.0:6443", value_name = "IP:PORT")]
    pub listen: std::net::SocketAddr,
    /// The folder with the cluster's keys, as `gantry pki init` makes it
    #[arg(long, value_name = "DIR")]
    pub pki_dir: PathBuf,
    /// The address that `kubernetes.default` leads to [default: the source address of the default route]
    #[arg(long, value_name = "IP")]
    pub advertise_ip: Option<IpAddr>,
    /// How many requests run at once, as seats that priority levels share [default: 100 for each CPU, 600 at most]
    #[arg(long, value_name = "SEATS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_requests_inflight: Option<u32>,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub authentication: AuthenticationArgs,
    #[command(flatten)]
    pub authorization: AuthorizationArgs,
    #[command(flatten)]
    pub audit: AuditArgs,
}

#[derive(Args, Debug, Clone)]
pub struct KubeletArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Args, Debug, Clone)]
pub struct ProxyArgs {
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub client: ClientArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Args, Debug, Clone)]
pub struct GuardArgs {
    /// Where the agent's process writes its id; with it, the agent is started again when it is gone
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub agent_pid_file: Option<PathBuf>,
    /// After `--`: the command that starts the agent
    #[arg(last = true, value_name = "COMMAND")]
    pub agent: Vec<std::ffi::OsString>,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// A number of bytes, or of KiB, MiB, GiB or TiB, with a space before the unit or without.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err("write it as a number of bytes, or with a unit: 8GiB, 512 MiB".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "it begins with a whole number, as in 8GiB".to_owned())?;
    number.checked_mul(1 << power).ok_or_else(|| "it is too much".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, bytes) in [("0", 0), ("8589934592", 8 << 30), ("8GiB", 8 << 30), ("8 GiB", 8 << 30), ("5 B", 5)] {
            assert_eq!(super::parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "8 GB", "-1", "8.5GiB", "99999999999TiB"] {
            assert!(super::parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_variable_stands_in_the_way_of_a_subcommand() {
        fn check(command: &clap::Command) {
            if command.is_args_conflicts_with_subcommands_set() {
                let from_environment = command.get_arguments().filter(|flag| flag.get_env().is_some());
                let flags: Vec<_> = from_environment.map(clap::Arg::get_id).collect();
                assert!(flags.is_empty(), "{}: {flags:?}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn a_store_member_has_tls_unless_it_is_told_not_to() {
        let parse = |words: &str| Cli::try_parse_from(["gantry", "store"].into_iter().chain(words.split_whitespace()));
        assert!(parse("").is_err());
        assert!(parse("--data-dir d").unwrap_err().to_string().contains("--tls-cert"));
        assert!(parse("--data-dir d --tls-cert c --tls-key k --client-ca a").is_ok());
        assert!(parse("--data-dir d --insecure").is_ok());
        assert!(parse("--data-dir d --insecure --tls-cert c").is_err());
        assert!(parse("status --endpoints a:1,b:2 -o json").is_ok());
        assert!(parse("snapshot save f").is_err());
        assert!(parse("snapshot save f --endpoint a:1").is_ok());
        assert!(parse("snapshot restore f --data-dir d --members 1=a:1,2=b:2,3=c:3 --member-id 2").is_ok());
    }

    #[test]
    fn hollow_machines_are_counted_unless_something_else_is_asked_for() {
        let parse = |words: &str| Cli::try_parse_from(["gantry", "hollow"].into_iter().chain(words.split_whitespace()));
        assert!(parse("").unwrap_err().to_string().contains("--nodes"));
        assert!(parse("--nodes 0").is_err());
        let cli = parse("--nodes 10000 --watch-per-node --pause-reports --seed 7").unwrap();
        let Command::Hollow(hollow) = cli.command else { panic!("not hollow") };
        assert_eq!(hollow.fleet.map(|fleet| (fleet.nodes, fleet.seed)), Some((10_000, 7)));
        assert!(parse("access --server https://a:1").is_ok());
        assert!(parse("profile").is_ok() && parse("profile gangs").is_ok());
        assert!(parse("workload --count 5").unwrap_err().to_string().contains("--profile"));
        assert!(parse("workload --profile batch --count 5 --rate 10").is_ok());
        assert!(parse("workload --profile batch --count 5 --rate 10 --out -").is_err());
    }

    #[test]
    fn plain_up_needs_no_flag() {
        let cli = Cli::try_parse_from(["gantry", "up"]).unwrap();
        let Command::Up(up) = cli.command else { panic!("not up") };
        assert_eq!((up.api_port, up.node.cgroup_root.as_str(), up.detach), (6443, "/gantry", false));
    }
}

#[derive(Args, Debug, Clone)]
pub struct DemoArgs {
    /// A folder of YAML manifests
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// How long to wait until everything runs
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub wait_s: u64,
    #[command(flatten)]
    pub data: DataArgs,
}
