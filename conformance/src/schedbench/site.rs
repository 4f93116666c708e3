//! A cluster to be measured: what has to run and to be there before, and what its processes use.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Lab;
use super::roles::Role;
use super::seen::{Group, Seen};
use super::shapes::{self, HIGH, HIGH_VALUE, Machine};
use crate::apibench::bodies::{Template, node_name};
use crate::apibench::load::{self, Shape};
use crate::apibench::servers::Api;
use crate::apibench::wire::{Call, MERGE};
use crate::apibench::{Identity, bodies};
use crate::storebench::latency::Latencies;
use crate::{readings, tools, wait_for};
use anyhow::Context;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
/// A /24 for each of 10,000 machines.
const PODS_CIDR: &str = "100.64.0.0/10";
const CLIENTS: usize = 64;
const CONNECTIONS: usize = 4;
const RBAC: &str = "rbac.authorization.k8s.io";
/// Who creates production beside a burst.
const PERSON: &str = "ann";
/// Until thousands of machines have registered.
const REGISTERED: Duration = Duration::from_secs(600);

/// Dropping it ends everything.
pub struct Site<'a> {
    pub lab: &'a Lab,
    pub scheduler: Option<Role>,
    pub controllers: Option<Role>,
    pub hollow: Option<Role>,
    /// Who looks at all pods.
    seen: Option<Seen>,
    /// Who looks at one namespace's pods besides, which are one group of its name.
    apart: Option<(String, Seen)>,
    pub admin: Identity,
    pub api: Api<'a>,
}

/// Pods of one group: `GROUP-0000000`, spread over namespaces.
pub struct Batch<'a> {
    pub group: &'a str,
    pub count: u64,
    pub body: &'a Template,
    pub namespaces: &'a [String],
    /// What differs in each.
    pub mark: &'a (dyn Fn(u64) -> String + Sync),
}

/// Processor seconds, and real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    pub api: f64,
    pub stores: f64,
    pub scheduler: f64,
    pub controllers: f64,
    pub hollow: f64,
    pub generator: f64,
    /// Everybody else on the machine.
    pub others: f64,
    pub wall: f64,
}

impl Costs {
    pub fn by_process(&self) -> [(&'static str, f64); 6] {
        [
            ("the API server", self.api),
            ("the stores", self.stores),
            ("the scheduler", self.scheduler),
            ("the controllers", self.controllers),
            ("the hollow machines", self.hollow),
            ("the generator", self.generator),
        ]
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            api: self.api - before.api,
            stores: self.stores - before.stores,
            scheduler: self.scheduler - before.scheduler,
            controllers: self.controllers - before.controllers,
            hollow: self.hollow - before.hollow,
            generator: self.generator - before.generator,
            others: self.others - before.others,
            wall: self.wall - before.wall,
        }
    }
}

pub fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

pub fn pod_name(group: &str, number: u64) -> String {
    format!("{group}-{number:07}")
}

impl<'a> Site<'a> {
    /// Stores and an API server, with the benchmark's own priority class.
    pub fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        let (api, admin) = (Api::start(&lab.api)?, lab.api.admin()?);
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": HIGH},
            "value": HIGH_VALUE});
        api.must(&Call::post("/apis/scheduling.k8s.io/v1/priorityclasses", bytes(&class)))?;
        Ok(Self { lab, scheduler: None, controllers: None, hollow: None, seen: None, apart: None, admin, api })
    }

    /// Namespaces with the account that pods run as.
    pub fn namespaces(&self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            let metadata = json!({"name": name, "labels": {"team": "devops"}});
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            self.api.must(&Call::post("/api/v1/namespaces", bytes(&body)))?;
            if self.controllers.is_none() {
                let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
                self.api.must(&Call::post(format!("/api/v1/namespaces/{name}/serviceaccounts"), bytes(&body)))?;
            } else {
                let path = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
                wait_for("the namespace's account", REGISTERED, || self.api.must(&Call::get(path.clone())))?;
            }
        }
        Ok(())
    }

    /// Somebody who may edit a namespace and nothing else.
    pub fn person(&self, namespace: &str) -> anyhow::Result<Identity> {
        let body = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "editors"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": PERSON}]});
        self.api.must(&Call::post(format!("/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings"), bytes(&body)))?;
        self.lab.api.person(PERSON)
    }

    fn load(&self, what: &str, count: u64, call: impl Fn(u64) -> Call + Send + Sync) -> anyhow::Result<()> {
        let identities = vec![self.admin.clone(); CONNECTIONS];
        let shape = Shape { identities: &identities, clients: CLIENTS, count, collection: PODS };
        load::run(&self.api, what, &shape, |_, turn| call(turn)).map(drop)
    }

    /// Machines that nobody reports for: as an agent registers, and as the node lifecycle leaves them. They go on from `first`.
    pub fn machines(&self, kind: Machine, first: u64, count: u64, zones: &[&str]) -> anyhow::Result<()> {
        let zones: Vec<Option<&str>> =
            if zones.is_empty() { vec![None] } else { zones.iter().copied().map(Some).collect() };
        let bodies: Vec<Template> = zones.iter().map(|zone| Template::new(&shapes::machine(kind, *zone))).collect();
        let name = |turn: u64| match kind {
            Machine::Chosen => shapes::CHOSEN.to_owned(),
            _ => node_name((first + turn) as usize),
        };
        let create = |turn: u64| {
            let body = &bodies[turn as usize % bodies.len()];
            Call::post(NODES, body.fill(&name(turn), &format!("{:05}", first + turn)))
        };
        self.load("machines", count, create)?;
        let open = bytes(&shapes::untainted());
        self.load("machines made ready", count, |turn| {
            Call::patch(format!("{NODES}/{}", name(turn)), MERGE, open.clone())
        })
    }

    /// Creates pods as fast as the server takes them. Returns when each was sent.
    pub fn pods(&self, batch: &Batch) -> anyhow::Result<Vec<Instant>> {
        let began = Instant::now();
        let sent: Vec<AtomicU64> = (0..batch.count).map(|_| AtomicU64::new(0)).collect();
        let call = |turn: u64| {
            let namespace = &batch.namespaces[turn as usize % batch.namespaces.len()];
            let body = batch.body.fill(&pod_name(batch.group, turn), &(batch.mark)(turn));
            sent[turn as usize].store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
            Call::post(format!("/api/v1/namespaces/{namespace}/pods"), body)
        };
        self.load(&format!("{} pods", batch.group), batch.count, call)?;
        Ok(sent.iter().map(|at| began + Duration::from_nanos(at.load(Ordering::Relaxed))).collect())
    }

    /// From now on binds are seen.
    pub fn look(&mut self) -> anyhow::Result<()> {
        self.seen = Some(Seen::start(self.admin.clone(), PODS.to_owned(), self.version()?));
        Ok(())
    }

    /// From now on binds in a namespace are seen by somebody who sees nothing else, and so is not kept busy by a burst.
    pub fn look_apart(&mut self, namespace: &str) -> anyhow::Result<()> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.apart = Some((namespace.to_owned(), Seen::start(self.admin.clone(), pods, self.version()?)));
        Ok(())
    }

    fn version(&self) -> anyhow::Result<String> {
        let list: Value = serde_json::from_slice(&self.api.must(&Call::get(format!("{PODS}?limit=1")))?)?;
        Ok(list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned())
    }

    fn who_sees(&self, group: &str) -> Option<&Seen> {
        let apart = self.apart.as_ref().filter(|(namespace, _)| namespace == group);
        apart.map(|(_, seen)| seen).or(self.seen.as_ref())
    }

    pub fn group(&self, name: &str) -> Group {
        self.who_sees(name).map(|seen| seen.group(name)).unwrap_or_default()
    }

    /// How often who sees a group was cut off: what happened meanwhile was seen late.
    pub fn cut_off(&self, group: &str) -> u64 {
        self.who_sees(group).map_or(0, Seen::resumed)
    }

    pub fn wait_bound(&mut self, group: &str, count: u64) -> anyhow::Result<()> {
        self.wait(group, count, |group| group.pods.len())
    }

    pub fn wait_ready(&mut self, group: &str, count: u64) -> anyhow::Result<()> {
        self.wait(group, count, |group| group.ready)
    }

    fn wait(&mut self, group: &str, count: u64, counted: fn(&Group) -> usize) -> anyhow::Result<()> {
        let seen = self.who_sees(group).context("somebody looks")?.clone();
        let alive = || self.roles_mut().try_for_each(Role::alive);
        let waited = seen.wait(group, count as usize, counted, alive);
        waited.with_context(|| self.tails())
    }

    fn roles_mut(&mut self) -> impl Iterator<Item = &mut Role> {
        [&mut self.scheduler, &mut self.controllers, &mut self.hollow].into_iter().flatten()
    }

    fn tails(&self) -> String {
        let roles = [&self.scheduler, &self.controllers, &self.hollow].into_iter().flatten();
        roles.map(Role::tail).collect::<Vec<_>>().join("\n")
    }

    fn gantry(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.lab.api.store.gantry);
        command.args(arguments);
        command
    }

    pub fn start_scheduler(&mut self) -> anyhow::Result<()> {
        let store = &self.lab.api.store;
        let mut command = self.gantry(&["scheduler", "--kubeconfig"]);
        command.arg(store.pki("scheduler.kubeconfig"));
        self.scheduler = Some(Role::start("scheduler", &mut command, &store.folder)?);
        Ok(())
    }

    pub fn stop_scheduler(&mut self) -> anyhow::Result<()> {
        self.scheduler.take().map_or(Ok(()), Role::stop)
    }

    pub fn start_controllers(&mut self) -> anyhow::Result<()> {
        let store = &self.lab.api.store;
        let mut command = self.gantry(&["controllers", "--kubeconfig"]);
        command.arg(store.pki("controllers.kubeconfig"));
        command.args(["--cluster-cidr", PODS_CIDR]);
        command.arg("--service-account-key").arg(store.pki("sa.key")).arg("--root-ca").arg(store.pki("ca.crt"));
        self.controllers = Some(Role::start("controllers", &mut command, &store.folder)?);
        Ok(())
    }

    pub fn stop_controllers(&mut self) -> anyhow::Result<()> {
        self.controllers.take().map_or(Ok(()), Role::stop)
    }

    /// Hollow machines, until all may take pods. The controllers must run.
    pub fn start_hollow(&mut self, count: u64, flags: &[&str]) -> anyhow::Result<()> {
        let store = &self.lab.api.store;
        let mut access = self.gantry(&["hollow", "access", "--data-dir"]);
        tools::run(access.arg(&store.folder))?;
        let mut command = self.gantry(&["hollow", "--nodes", &count.to_string(), "--data-dir"]);
        command.arg(&store.folder).args(flags);
        self.hollow = Some(Role::start("hollow", &mut command, &store.folder)?);
        let began = Instant::now();
        wait_for("the machines to be ready", REGISTERED, || {
            self.roles_mut().try_for_each(Role::alive)?;
            std::thread::sleep(Duration::from_secs(1));
            let ready = self.ready_machines()?;
            anyhow::ensure!(ready as u64 == count, "{ready} of {count}");
            Ok(())
        })
        .with_context(|| self.tails())?;
        eprintln!("      {count} hollow machines are ready after {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    fn ready_machines(&self) -> anyhow::Result<usize> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<Node>,
        }
        #[derive(Deserialize)]
        struct Node {
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Deserialize, Default)]
        struct Spec {
            #[serde(default)]
            taints: Vec<Taint>,
        }
        #[derive(Deserialize)]
        struct Taint {
            key: String,
        }
        let list: List = serde_json::from_slice(&self.api.must(&Call::get(NODES))?)?;
        let closed = |taint: &Taint| taint.key == "node.kubernetes.io/not-ready";
        Ok(list.items.iter().filter(|node| !node.spec.taints.iter().any(closed)).count())
    }

    /// What everybody used so far.
    pub fn costs(&self) -> anyhow::Result<Costs> {
        let cpu = self.api.cpu()?;
        let of = |role: &Option<Role>| role.as_ref().map_or(Ok(0.0), Role::cpu_s);
        let (scheduler, controllers, hollow) = (of(&self.scheduler)?, of(&self.controllers)?, of(&self.hollow)?);
        // Any moment does: only differences are used.
        let wall = boot_s()?;
        let others = cpu.others - scheduler - controllers - hollow;
        Ok(Costs {
            api: cpu.api,
            stores: cpu.stores,
            scheduler,
            controllers,
            hollow,
            generator: cpu.generator,
            others,
            wall,
        })
    }

    /// Binds that the scheduler decided again: it reads a machine's allocation by its name after each of them, and nobody else does.
    pub fn conflicts(&self) -> anyhow::Result<f64> {
        let text = self.api.must(&Call::get("/metrics"))?;
        let text = String::from_utf8_lossy(&text);
        let counted = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains("nodeallocations")
                && line.to_ascii_lowercase().contains(r#"verb="get""#)
        };
        Ok(text.lines().filter(counted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    pub fn scheduler_mb(&self) -> anyhow::Result<f64> {
        readings::resident_mb(self.scheduler.as_ref().context("a scheduler runs")?.pid())
    }
}

fn boot_s() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    text.split_whitespace().next().context("an uptime")?.parse().context("an uptime")
}

/// From when each was sent until it was seen bound.
pub fn waits(group: &Group, name: &str, sent: &[Instant]) -> Latencies {
    let mut latencies = Latencies::default();
    for (number, at) in sent.iter().enumerate() {
        if let Some(pod) = group.pods.get(&pod_name(name, number as u64)) {
            latencies.add(pod.bound.saturating_duration_since(*at));
        }
    }
    latencies
}

/// The template of pods whose mark is their machine's number.
pub fn template(pod: shapes::Pod) -> Template {
    Template::new(&shapes::pod(pod))
}

/// As machines are numbered.
pub fn number(turn: u64) -> String {
    bodies::node_name(turn as usize).trim_start_matches("node-").to_owned()
}
