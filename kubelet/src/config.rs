//! What the agent has to be told about its machine and cluster. Plain fields with defaults; reads nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::runtime::Runtime;

#[derive(Clone)]
pub struct Config {
    pub node_name: String,
    /// This machine's address for other machines; the first one is the pod's `hostIP`.
    pub node_ips: Vec<IpAddr>,
    /// Extra labels of the Node.
    pub node_labels: BTreeMap<String, String>,
    /// Everything of the agent's lives below: checkpoints, pod volumes, the addresses handed out to pods.
    pub root: PathBuf,
    /// Containers' log files; `None` is `root/logs`.
    pub log_root: Option<PathBuf>,
    /// The socket of the container runtime.
    pub runtime_socket: PathBuf,
    /// Used instead of the socket when given: tests and machines that only pretend.
    pub runtime: Option<Arc<dyn Runtime>>,
    /// Where the CNI configuration is written.
    pub cni_dir: PathBuf,
    /// Where the CNI programs are.
    pub cni_bin_dir: PathBuf,
    /// Write no CNI configuration: somebody else does.
    pub external_cni: bool,
    /// The cgroup file system.
    pub cgroup_fs: PathBuf,
    /// The cgroup that all pods live under.
    pub cgroup_root: String,
    pub cluster_domain: String,
    pub cluster_dns: Vec<IpAddr>,
    /// The machine's resolver configuration, for pods with `dnsPolicy: Default`.
    pub resolv_conf: PathBuf,
    /// Where `/containerLogs` and the rest are served.
    pub listen: std::net::SocketAddr,
    /// Certificate chain and key of that server, and the authority that its clients' certificates must come from: PEM
    /// files. Without them nothing is served.
    pub tls: Option<TlsFiles>,
    pub max_pods: u32,
    /// Kept from pods: (milli-cpu, bytes of memory).
    pub reserved_milli_cpu: i64,
    pub reserved_memory_bytes: i64,
    /// A container's log is rotated beyond this size, keeping `log_files` in all.
    pub log_max_bytes: u64,
    pub log_files: u32,
    /// The discovery copy on disk; Services' environment comes from it.
    pub discovery: Option<PathBuf>,
    /// The heartbeat's own client, so that nothing can hold it up; `None` shares the agent's.
    pub heartbeat_client: Option<gantry_client::Client>,
}

#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_ca: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: "localhost".into(),
            node_ips: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            node_labels: BTreeMap::new(),
            root: "/var/lib/gantry/node".into(),
            log_root: None,
            runtime_socket: "/var/lib/gantry/containerd/containerd.sock".into(),
            runtime: None,
            cni_dir: "/var/lib/gantry/containerd/cni".into(),
            cni_bin_dir: "/usr/lib/cni".into(),
            external_cni: false,
            cgroup_fs: "/sys/fs/cgroup".into(),
            cgroup_root: "/gantry".into(),
            cluster_domain: "cluster.local".into(),
            cluster_dns: vec![IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10))],
            resolv_conf: "/etc/resolv.conf".into(),
            listen: std::net::SocketAddr::from(([0, 0, 0, 0], 10250)),
            tls: None,
            max_pods: 250,
            reserved_milli_cpu: 100,
            reserved_memory_bytes: 256 << 20,
            log_max_bytes: 10 << 20,
            log_files: 5,
            discovery: None,
            heartbeat_client: None,
        }
    }
}

impl Config {
    pub fn log_dir(&self) -> PathBuf {
        self.log_root.clone().unwrap_or_else(|| self.root.join("logs"))
    }
    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }
    /// `LOGS/namespace_name_uid`, as log collectors expect.
    pub fn pod_log_dir(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.log_dir().join(format!("{namespace}_{name}_{uid}"))
    }
}
