//! A network namespace for the whole test: its cluster's ports, links and nftables rules cannot meet the machine's own.

use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::Command;

const INSIDE: &str = "GANTRY_CONFORMANCE_NETNS";

/// The address of the test machine's only outward link.
pub const NODE_IP: &str = "192.0.2.10";

/// Runs this same program again inside a fresh network namespace, and returns only there. The namespace has loopback and
/// one link `eth0` with [`NODE_IP`]; it has no route to anywhere else. It ends with its last process.
pub fn enter() -> anyhow::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return set_up();
    }
    let own = std::env::current_exe().context("the path of this program")?;
    let error = Command::new("unshare").arg("--net").arg(own).args(std::env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(error).context("unshare (package util-linux) did not start")
}

fn set_up() -> anyhow::Result<()> {
    let address = format!("{NODE_IP}/24");
    for arguments in [
        &["link", "set", "lo", "up"][..],
        &["link", "add", "eth0", "type", "bridge"],
        &["address", "add", &address, "dev", "eth0"],
        &["link", "set", "eth0", "up"],
    ] {
        crate::tools::ip(arguments)?;
    }
    Ok(())
}
