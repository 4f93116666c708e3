//! Where a role that has no server of its own shows its numbers.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Show Prometheus' metrics at https://ADDRESS/metrics, to clients with a certificate of --client-ca in the group
    /// system:monitoring or system:masters [default: nowhere]
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key", "client_ca"])]
    pub metrics_listen: Option<SocketAddr>,
    /// The serving certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "metrics_listen")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "metrics_listen")]
    pub tls_key: Option<PathBuf>,
    /// The authority that signs client certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "metrics_listen")]
    pub client_ca: Option<PathBuf>,
}
