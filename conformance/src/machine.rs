//! One machine of a [`Fleet`](crate::Fleet): a network namespace with one link to the others, and a data directory. It
//! decides how a command gets inside; the roles that run there are the fleet's affair.

use crate::tools::{self, ip, run};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

pub struct Machine {
    pub name: String,
    pub ip: String,
    /// The end of its link that stays in the test's namespace, on the bridge.
    link: String,
    data_dir: PathBuf,
    /// Keeps the namespace alive.
    holder: Mutex<Child>,
    holder_id: u32,
}

impl Machine {
    /// `eth0` of the test's namespace is the bridge that joins the machines.
    pub fn new(number: u8, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo inside; exec sleep infinity"]).stdin(Stdio::null());
        let mut holder = command.stdout(Stdio::piped()).spawn().context("unshare did not start")?;
        wait_inside(&mut holder)?;
        let (link, holder_id) = (format!("machine{number}"), holder.id());
        let machine = Self {
            name: format!("machine-{number}"),
            ip: format!("192.0.2.{}", 10 + number),
            link: link.clone(),
            data_dir: folder.join(format!("machine-{number}")),
            holder: Mutex::new(holder),
            holder_id,
        };
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &holder_id.to_string()])?;
        ip(&["link", "set", &link, "master", "eth0", "up"])?;
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &format!("{}/24", machine.ip), "dev", "eth0"],
            &["link", "set", "eth0", "up"],
        ] {
            run(machine.enter("ip").args(arguments))?;
        }
        Ok(machine)
    }

    /// A command that runs in this machine's network, with the mounts and cgroups that the test sees.
    pub fn enter(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder_id)).arg("--").arg(program);
        command
    }

    /// A `gantry` subcommand on this machine and its data directory.
    pub fn gantry(&self, subcommand: &str) -> anyhow::Result<Command> {
        let mut command = self.enter(tools::gantry()?);
        command.arg(subcommand).arg("--data-dir").arg(&self.data_dir);
        Ok(command)
    }

    pub fn cgroup_root(&self) -> String {
        let folder = self.data_dir.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        format!("/{}-{}", folder.unwrap_or("gantry-e2e"), self.name)
    }

    /// Puts the images where the node agent imports them from.
    pub fn build_images(&self) -> anyhow::Result<()> {
        tools::build_images(&self.data_dir)
    }

    /// What a client on this machine gets from a URL.
    pub fn fetch(&self, url: &str) -> anyhow::Result<String> {
        run(self.enter(tools::testbed()?).args(["fetch", url, "3"]))
    }

    /// Its cable is pulled, or plugged in again.
    pub fn plug(&self, connected: bool) -> anyhow::Result<()> {
        ip(&["link", "set", &self.link, if connected { "up" } else { "down" }])
    }

    pub fn down(&self) -> anyhow::Result<()> {
        run(self.gantry("down")?.arg("--purge")).map(drop)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut holder = self.holder.lock().expect("no holder of the lock panics");
        let _ = holder.kill();
        let _ = holder.wait();
    }
}

/// Returns when the holder is in its namespace.
fn wait_inside(holder: &mut Child) -> anyhow::Result<()> {
    use std::io::{BufRead, BufReader};
    let output = holder.stdout.take().context("unshare's output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    anyhow::ensure!(line == "inside\n", "unshare (package util-linux) did not make a network namespace");
    Ok(())
}
