//! One API server on one member of each store group, as processes of their own, and what each of them uses. It never signals a
//! process that it did not start.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::wire::{Call, Link};
use super::{Identity, Lab};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Peer, interrupt};
use crate::{namespace, readings};
use anyhow::Context;
use bytes::Bytes;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const ADDRESS: &str = "127.0.0.1:6443";
const START: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(20);

/// Dropping it ends the processes; the API server goes first.
pub struct Api<'a> {
    pub lab: &'a Lab,
    child: Child,
    stores: Servers<'a>,
    admin: Identity,
}

/// Processor seconds so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub api: f64,
    pub stores: f64,
    pub generator: f64,
    /// Everybody else on the machine.
    pub others: f64,
}

impl Cpu {
    pub fn since(self, before: Self) -> Self {
        Self {
            api: self.api - before.api,
            stores: self.stores - before.stores,
            generator: self.generator - before.generator,
            others: self.others - before.others,
        }
    }
}

impl<'a> Api<'a> {
    /// Starts fresh servers and returns when they are ready.
    pub fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        let stores = Servers::start(&lab.store, &Peer::Gantry, Layout::WHOLE)?;
        let endpoints: Vec<_> =
            Layout::WHOLE.groups.iter().map(|group| format!("{group}={}", stores.address(group, 1))).collect();
        let log = File::options().create(true).append(true).open(lab.store.folder.join("apiserver.log"))?;
        let mut command = Command::new(&lab.store.gantry);
        command.args(["apiserver", "--listen", ADDRESS, "--advertise-ip", namespace::NODE_IP]);
        command.args(["--store-endpoints", &endpoints.join(","), "--pki-dir"]).arg(lab.store.pki(""));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("the API server did not start")?;
        interrupt::started(child.id());
        let mut api = Self { lab, child, stores, admin: lab.admin()? };
        api.wait_ready()?;
        Ok(api)
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while let Err(error) = self.must(&Call::get("/readyz")) {
            let log = || crate::cluster::tail(&self.lab.store.folder.join("apiserver.log"), 10);
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the API server ended: {status}\n{}", log());
            }
            if Instant::now() >= deadline {
                return Err(error.context(format!("the API server is not ready after {START:?}\n{}", log())));
            }
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// As the administrator, outside of any load.
    pub fn must(&self, call: &Call) -> anyhow::Result<Bytes> {
        self.lab.store.block_on(async {
            let ask = async { Link::connect(ADDRESS, &self.admin).await?.must(call).await };
            tokio::time::timeout(START, ask).await.with_context(|| format!("no answer to {}", call.path))?
        })
    }

    /// A read that is answered only when the server has seen every write that was acknowledged.
    pub fn settle(&self, collection: &str) -> anyhow::Result<()> {
        self.must(&Call::get(format!("{collection}?limit=1"))).map(drop)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn cpu(&self) -> anyhow::Result<Cpu> {
        let api = readings::cpu_ms(self.pid())? / 1_000.0;
        let stores = self.stores.usage()?.cpu_s;
        let generator = readings::cpu_ms(std::process::id())? / 1_000.0;
        Ok(Cpu { api, stores, generator, others: readings::machine_cpu_s()? - api - stores - generator })
    }
}

impl Drop for Api<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        interrupt::ending(self.child.id());
        let _ = self.child.wait();
    }
}
