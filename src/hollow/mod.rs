//! `gantry hollow`: machines that only pretend, the identity that they use, and workloads for them. It decides what they are told;
//! how they behave is `gantry_kubelet::hollow`, what they and workloads are made of is `gantry_rehearsal`.

mod access;
mod create;
mod workload;

use crate::cli::{FleetArgs, HollowArgs, HollowCommand};
use crate::datadir::DataDir;
use crate::problem::Problem;
use crate::say::say;
use crate::stop;
use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Client, ListOptions};
use gantry_kubelet::hollow::{HollowClients, HollowConfig, MOST};
use gantry_rehearsal::{FleetProfile, workload as rehearsed};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The file stem of the identity's certificate and kubeconfig.
const IDENTITY: &str = "hollow";

pub async fn run(args: HollowArgs) -> anyhow::Result<()> {
    match (args.command, args.fleet) {
        (Some(HollowCommand::Access(access)), _) => access::run(access).await,
        (Some(HollowCommand::Workload(workload)), _) => workload::run(workload).await,
        (Some(HollowCommand::Profile { name }), _) => profile(&name),
        (None, Some(fleet)) => machines(fleet).await,
        (None, None) => Err(Problem::new("say how many machines: `gantry hollow --nodes N`").into()),
    }
}

fn profile(name: &str) -> anyhow::Result<()> {
    let found = rehearsed::BUILT_IN.iter().find(|(one, _)| *one == name).map(|(_, text)| *text);
    let found = found.or((name == "fleet").then(FleetProfile::built_in_text));
    let text = found.ok_or_else(|| {
        Problem::new(format!("there is no profile {name:?}; there are fleet, services, batch, affinity, gangs"))
    })?;
    say!("{}", text.trim_end());
    Ok(())
}

/// A file that the person named; what is wrong with it is theirs to put right.
fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|error| Problem::new(format!("{}: {error}", path.display())))
}

async fn machines(args: FleetArgs) -> anyhow::Result<()> {
    numbers(&args)?;
    let profile = match &args.profile {
        None => FleetProfile::built_in(),
        Some(path) => FleetProfile::parse(&read(path)?)
            .map_err(|problem| Problem::new(format!("--profile {}: {problem}", path.display())))?,
    };
    let kubeconfig = kubeconfig(&args)?;
    let link = async |connections: u16| {
        let client = Client::over_links(&kubeconfig, usize::from(connections)).await;
        let client = client.map(|client| client.with_user_agent("gantry-hollow"));
        client.map_err(|error| Problem::new(format!("--kubeconfig {}: {error}", kubeconfig.display())))
    };
    let clients = HollowClients {
        leases: link(1).await?,
        writes: link(args.connections).await?,
        watches: link(args.connections).await?,
    };
    check_rights(&clients.watches).await?;
    let config = HollowConfig {
        profile,
        seed: args.seed,
        machines: args.nodes,
        first: args.first,
        watch_per_machine: args.watch_per_node,
        events: !args.no_events,
        batch_ms: args.batch_ms,
        pod_writes: usize::from(args.pod_writes),
        report_every_s: args.report_s,
    };
    let paused = pauses(args.pause_reports)?;
    gantry_kubelet::hollow::run(config, clients, paused, stop::signal_token()?).await;
    Ok(())
}

/// Each machine has an address of its own.
fn numbers(args: &FleetArgs) -> Result<(), Problem> {
    if args.first.saturating_add(args.nodes) <= MOST {
        return Ok(());
    }
    Err(Problem::new(format!(
        "--first and --nodes together: a fleet has at most {MOST} machines, each with its own address"
    )))
}

fn kubeconfig(args: &FleetArgs) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.kubeconfig {
        return Ok(path.clone());
    }
    let data = DataDir::new(&args.data_dir())?;
    let path = crate::pki::Pki::new(&data).kubeconfig(IDENTITY);
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("{} is not there: make it with `gantry hollow access`, or give --kubeconfig", path.display());
    Err(Problem::new(text).into())
}

/// Said once and clearly, instead of by thousands of machines.
async fn check_rights(client: &Client) -> anyhow::Result<()> {
    let one = ListOptions { limit: 1, ..ListOptions::default() };
    match client.list::<serde_json::Value>(&kinds::NODE, "", &one).await {
        Err(ApiError::Forbidden(status)) => {
            let text = format!("{}: `gantry hollow access` makes an identity that may", status.message);
            Err(Problem::new(text).into())
        }
        // A server that does not answer yet is waited for.
        Err(error) => {
            tracing::warn!(error = %error.chain(), "the API server does not answer yet");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Whether reports are paused: as it begins, and as signals say.
fn pauses(begin: bool) -> anyhow::Result<watch::Receiver<bool>> {
    let (mut pause, mut go) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let (sender, receiver) = watch::channel(begin);
    tokio::spawn(async move {
        loop {
            let paused = tokio::select! {
                _ = pause.recv() => true,
                _ = go.recv() => false,
            };
            tracing::info!(paused, "reports of pods");
            if sender.send(paused).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn no_two_machines_of_a_fleet_have_one_address() {
        let check = |first: &str, nodes: &str, fits: bool| {
            let cli = Cli::parse_from(["gantry", "hollow", "--first", first, "--nodes", nodes]);
            let Command::Hollow(hollow) = cli.command else { panic!("not hollow") };
            assert_eq!(numbers(&hollow.fleet.unwrap()).is_ok(), fits, "{first} {nodes}");
        };
        check("0", "100000", true);
        check("131071", "1", true);
        check("131071", "2", false);
    }
}
