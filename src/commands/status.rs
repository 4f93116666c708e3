//! `gantry status`: which processes run from a data directory, and whether they answer. It changes nothing.

use crate::cli::DataArgs;
use crate::datadir::DataDir;
use crate::detached::Detached;
use crate::say::say;
use comfy_table::{Table, presets};
use std::path::{Path, PathBuf};

/// The resident memory of a process in MiB.
fn resident_mib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

pub async fn status(args: DataArgs) -> anyhow::Result<()> {
    let data = DataDir::new(&args.data_dir)?;
    data.check_format()?;
    let gantry = std::env::current_exe()?;
    let mut unseen = false;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["PART", "PROCESS", "MEMORY", "STATE"]);
    for (name, program) in [("gantry", gantry.as_path()), ("guard", &gantry), ("containerd", Path::new("containerd"))] {
        let by_command_line = || match name {
            "containerd" => Detached::containerd_of(&data),
            _ => Detached::role_of(&data, name, program),
        };
        let found = Detached::from_pid_file(&data.pid_file(name), program).or_else(by_command_line);
        let row = match found {
            Some(process) => {
                let memory = resident_mib(process.pid()).map_or_else(|| "?".to_owned(), |mib| format!("{mib} MiB"));
                [name.to_owned(), process.pid().to_string(), memory, state_of(&data, name).await]
            }
            None => {
                unseen = true;
                [name.to_owned(), "-".to_owned(), "-".to_owned(), "not running".to_owned()]
            }
        };
        table.add_row(row);
    }
    say!("{table}");
    if unseen && !rustix::process::geteuid().is_root() {
        say!("only root sees every process: for what is shown as not running, try again with sudo");
    }
    say!("data directory: {}", data.root().display());
    let made = if data.kubeconfig().exists() { "" } else { " (not there: `gantry up` makes it)" };
    say!("kubeconfig:     {}{made}", data.kubeconfig().display());
    Ok(())
}

async fn state_of(data: &DataDir, name: &str) -> String {
    let socket: PathBuf = data.containerd().join("containerd.sock");
    match name {
        "gantry" if data.holder(name).is_none() => "running, but its pid file is lost".to_owned(),
        "gantry" => crate::up::Phase::read(data).map_or_else(|| "starting".to_owned(), |phase| phase.to_string()),
        "containerd" => match tokio::net::UnixStream::connect(&socket).await {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                "running (only root may ask it)".to_owned()
            }
            Err(_) => "does not answer".to_owned(),
            Ok(_) => "running".to_owned(),
        },
        _ => "running".to_owned(),
    }
}
