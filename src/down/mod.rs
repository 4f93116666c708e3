//! `gantry down`: everything that was started from a data directory ends, and nothing stays in the kernel.
//!
//! It works from what is there (processes, mounts, cgroups), not from what the store or containerd believe, so that it
//! also cleans up after crashes. It never touches what another data directory started.

mod links;
mod mounts;
mod ports;
mod processes;
mod shims;

pub use ports::nat_objects;

use crate::cli::DownArgs;
use crate::datadir::DataDir;
use crate::detached::Detached;
use crate::footprint::{Clash, Footprint, network_namespace};
use crate::preflight;
use crate::say::say;
use std::path::Path;
use std::time::Duration;

const STOP_PATIENCE: Duration = Duration::from_secs(10);
const KILL_PATIENCE: Duration = Duration::from_secs(10);

pub async fn run(args: DownArgs) -> anyhow::Result<()> {
    preflight::check_root()?;
    let data = DataDir::new(&args.data.data_dir)?;
    if !data.root().exists() {
        say!("{}: nothing to stop", data.root().display());
        return Ok(());
    }
    data.check_format()?;
    let footprint = Footprint::read(&data)?;
    // What stands under the same names now is somebody else's: this one's is gone, or it could not have started.
    let rival = footprint.as_ref().and_then(|footprint| footprint.rival(&data));
    if let Some((claim, _)) = &rival {
        say!("{}: what {} uses now is left alone", data.root().display(), claim.data_dir.display());
    }
    stop_roles(&data).await;
    if let Some(footprint) = &footprint {
        let cgroup_root = if matches!(rival, Some((_, Clash::Cgroup))) { "" } else { &footprint.cgroup_root };
        remove_containers(&data, cgroup_root).await?;
    }
    // Only where Gantry mounts: a data directory may be a disk, or hold one.
    for dir in [data.node(), data.containerd()] {
        mounts::unmount_below(&dir)?;
    }
    if let Some(footprint) = &footprint {
        let had_ports = links::remove_pod_links(&data.containerd())?;
        // A namespace of the node's own goes away with its table and link.
        if rival.is_none() && footprint.network_namespace == network_namespace() {
            remove_network(footprint, had_ports)?;
        }
        Footprint::forget(&data);
    }
    if args.purge {
        if data.purge()? {
            say!("{} is deleted", data.root().display());
        } else {
            say!(
                "{}: everything of Gantry's is deleted; the directory holds other files, or is a disk",
                data.root().display()
            );
        }
    } else {
        say!("{}: everything is stopped; objects and images are kept (--purge deletes them)", data.root().display());
    }
    Ok(())
}

/// Ends the processes with a pid file, or with this data directory in their command line: `gantry` first, so that it does not
/// restart the others. A process id may be used again after a reboot, so the name of the program is not enough: a role holds
/// its lock, containerd names its own folder.
async fn stop_roles(data: &DataDir) {
    let gantry = std::env::current_exe().unwrap_or_else(|_| "gantry".into());
    for name in ["gantry", "kubelet", "proxy", "guard"] {
        let locked = Detached::from_pid_file(&data.pid_file(name), &gantry)
            .filter(|process| data.holder(name) == Some(process.pid()));
        if let Some(process) = locked.or_else(|| Detached::role_of(data, name, &gantry)) {
            stop(name, process).await;
        }
        let _ = std::fs::remove_file(data.pid_file(name));
    }
    if let Some(process) = Detached::containerd_of(data) {
        stop("containerd", process).await;
    }
    let _ = std::fs::remove_file(data.pid_file("containerd"));
}

async fn stop(name: &str, process: Detached) {
    say!("stopping {name} (process {})", process.pid());
    process.stop(STOP_PATIENCE).await;
}

/// Kills every container process and shim, and removes the pods' cgroups.
async fn remove_containers(data: &DataDir, cgroup_root: &str) -> anyhow::Result<()> {
    let socket = data.containerd().join("containerd.sock");
    let cgroups = processes::Cgroups::under(Path::new("/sys/fs/cgroup"), cgroup_root);
    let find = || {
        let mut found = cgroups.processes();
        found.extend(processes::shims_of(&socket));
        found
    };
    let first = find();
    if !first.is_empty() {
        say!("ending {} container processes", first.len());
    }
    processes::kill_until_none(find, KILL_PATIENCE).await?;
    shims::remove_sockets(&data.containerd());
    cgroups.remove()
}

fn remove_network(footprint: &Footprint, had_ports: bool) -> anyhow::Result<()> {
    links::remove_routes()?;
    links::remove_link(&footprint.dns_link)?;
    links::remove_table(&footprint.nft_table)?;
    match &footprint.nat_before {
        Some(before) => ports::forget_shared_chains(before),
        // Nobody looked at the start, so only what is surely ours goes.
        None if had_ports => ports::forget_shared_chains(&[]),
        None => Ok(()),
    }
}
