//! Measures the built binary from outside and prints one JSON report: samples only, no judgement. `cargo xtask bench`
//! builds, runs this and writes the words.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use anyhow::Context;
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use gantry_conformance::readings::{cpu_ms, fdatasync_us, machine, machine_cpu_s, resident_mb};
use gantry_conformance::{Cluster, ClusterOptions, namespace, tools};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Arguments {
    /// first-light
    name: String,
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    anyhow::ensure!(arguments.name == "first-light", "unknown benchmark {:?}", arguments.name);
    namespace::enter()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut figures = Figures::default();
    let sync = fdatasync_us(&std::env::temp_dir(), 200)?;
    let cluster = Cluster::start(ClusterOptions::default())?;
    for run in 0..arguments.runs {
        eprintln!("run {} of {}", run + 1, arguments.runs);
        figures.start(&cluster)?;
        figures.idle(&cluster)?;
        let config = kube::config::Kubeconfig::read_from(cluster.data_dir().join("kubeconfig"))?;
        runtime.block_on(async {
            let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
            let client = kube::Client::try_from(config)?;
            figures.config_maps(&client, &cluster).await?;
            figures.pods(&client).await?;
            figures.pods_at_once(&client, &cluster).await
        })?;
    }
    let report = json!({"machine": machine(), "fdatasync_us": sync, "figures": figures.into_json()});
    println!("{report}");
    Ok(())
}

/// Samples by figure, in the order of first use.
#[derive(Default)]
struct Figures {
    order: Vec<(&'static str, &'static str, &'static str)>,
    samples: BTreeMap<&'static str, Vec<f64>>,
}

impl Figures {
    fn add(&mut self, name: &'static str, unit: &'static str, goal: &'static str, value: f64) {
        if !self.samples.contains_key(name) {
            self.order.push((name, unit, goal));
        }
        eprintln!("  {name}: {value:.3} {unit}");
        self.samples.entry(name).or_default().push(value);
    }

    fn into_json(mut self) -> Vec<Value> {
        let order = std::mem::take(&mut self.order);
        order
            .iter()
            .map(|(name, unit, goal)| json!({"name": name, "unit": unit, "goal": goal, "samples": self.samples[name]}))
            .collect()
    }

    /// From the start of `gantry up` on an empty data directory with two image archives to its own word that the machine
    /// is Ready. Every run begins there, so that none pays for what the ones before it wrote.
    fn start(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        cluster.reset()?;
        let start = Instant::now();
        cluster.spawn()?;
        cluster.wait_announced(Duration::from_secs(60))?;
        self.add("start of `gantry up` to Ready", "s", "≤ 3", start.elapsed().as_secs_f64());
        cluster.wait_ready(Duration::from_secs(10))
    }

    /// Twenty quiet seconds after ten to settle.
    fn idle(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let pid = cluster.pid()?;
        std::thread::sleep(Duration::from_secs(10));
        let (before, start) = (cpu_ms(pid)?, Instant::now());
        std::thread::sleep(Duration::from_secs(20));
        let share = (cpu_ms(pid)? - before) / start.elapsed().as_secs_f64() / 10.0;
        self.add("idle CPU of the whole process", "% of a core", "≤ 1", share);
        self.add("idle resident memory of the whole process", "MB", "≤ 80", resident_mb(pid)?);
        Ok(())
    }

    async fn config_maps(&mut self, client: &kube::Client, cluster: &Cluster) -> anyhow::Result<()> {
        const COUNT: usize = 4000;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let version = api.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
        let watcher = tokio::spawn(see_all(api.clone(), version, COUNT));
        let (cpu, start) = (cpu_ms(cluster.pid()?)?, Instant::now());
        let acknowledged: Vec<(String, Instant)> = stream::iter(0..COUNT)
            .map(|number| {
                let api = api.clone();
                async move {
                    let name = format!("bench-{number}");
                    let object: ConfigMap = serde_json::from_value(json!({
                        "metadata": {"name": name, "labels": {"bench": "creates"}}, "data": {"k": "v".repeat(512)}
                    }))?;
                    api.create(&PostParams::default(), &object).await?;
                    anyhow::Ok((name, Instant::now()))
                }
            })
            .buffer_unordered(16)
            .try_collect()
            .await?;
        let took = start.elapsed().as_secs_f64();
        let used = cpu_ms(cluster.pid()?)? - cpu;
        let seen = watcher.await??;
        let mut lags: Vec<f64> = acknowledged
            .iter()
            .filter_map(|(name, at)| Some(seen.get(name)?.saturating_duration_since(*at).as_secs_f64() * 1000.0))
            .collect();
        anyhow::ensure!(lags.len() == COUNT, "the watch saw {} of {COUNT}", lags.len());
        lags.sort_by(f64::total_cmp);
        self.add("ConfigMap creates, 16 in flight", "/s", "≥ 1500", COUNT as f64 / took);
        self.add("server CPU per ConfigMap create, its watch event included", "µs", "–", used * 1000.0 / COUNT as f64);
        self.add("acknowledged create to watch event, p99", "ms", "≤ 10", lags[COUNT * 99 / 100]);
        api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("bench=creates")).await?;
        Ok(())
    }

    async fn pods(&mut self, client: &kube::Client) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(client.clone(), "default");
        let mut one_by_one = Vec::new();
        for number in 0..10 {
            let start = Instant::now();
            start_pods(&api, &format!("single-{number}"), 1).await?;
            one_by_one.push(start.elapsed().as_secs_f64());
            end_pods(&api).await?;
        }
        one_by_one.sort_by(f64::total_cmp);
        self.add("pod created to Ready, one at a time, p50", "s", "≤ 0.6", one_by_one[one_by_one.len() / 2]);
        Ok(())
    }

    /// The peer is the same containerd without Gantry, asked for the same pods; who begins alternates between runs.
    async fn pods_at_once(&mut self, client: &kube::Client, cluster: &Cluster) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(client.clone(), "default");
        let bare_first = self.samples.get(RATIO).is_some_and(|samples| samples.len() % 2 == 1);
        let early = if bare_first { Some(containerd_alone(cluster)?) } else { None };
        let since = Since::quiet()?;
        start_pods(&api, "many", BURST).await?;
        let gantry = since.burst()?;
        end_pods(&api).await?;
        let bare = early.map_or_else(|| containerd_alone(cluster), Ok)?;
        self.add("pod starts, 40 at once", "/s", "≥ 10", gantry.rate);
        self.add("containerd alone, asked for the same 40 pods", "/s", "–", bare.rate);
        self.add(RATIO, "", "≥ 0.6", gantry.rate / bare.rate);
        self.add("the machine's CPU per pod start, 40 at once", "s", "–", gantry.cpu_s);
        self.add("the same, containerd alone", "s", "–", bare.cpu_s);
        Ok(())
    }
}

const BURST: usize = 40;
const RATIO: &str = "pod starts as a share of what containerd alone does";

/// Many pods started at once.
struct Burst {
    /// Pods a second.
    rate: f64,
    /// CPU-seconds of the whole machine for each pod.
    cpu_s: f64,
}

/// When a burst began.
struct Since {
    at: Instant,
    cpu_s: f64,
}

impl Since {
    /// Begins after a quiet while: the kernel still works on the cgroups and mounts of the pods that ended before.
    fn quiet() -> anyhow::Result<Self> {
        std::thread::sleep(Duration::from_secs(10));
        Ok(Self { at: Instant::now(), cpu_s: machine_cpu_s()? })
    }

    fn burst(&self) -> anyhow::Result<Burst> {
        let seconds = self.at.elapsed().as_secs_f64();
        Ok(Burst { rate: BURST as f64 / seconds, cpu_s: (machine_cpu_s()? - self.cpu_s) / BURST as f64 })
    }
}

/// The same pods, asked of the cluster's own containerd without Gantry in between.
fn containerd_alone(cluster: &Cluster) -> anyhow::Result<Burst> {
    let program = tools::gantry()?.with_file_name("examples").join("cri_starts");
    let since = Since::quiet()?;
    let mut child = Command::new(&program)
        .arg(cluster.data_dir().join("containerd/containerd.sock"))
        .args([format!("{}/bare", cluster.cgroup_root()), BURST.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} did not start", program.display()))?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("its output")?).read_line(&mut said)?;
    let burst = since.burst()?;
    drop(child.stdin.take());
    let status = child.wait()?;
    anyhow::ensure!(status.success() && said.trim() == "running", "cri_starts: {status}, said {said:?}");
    Ok(burst)
}

/// When each of `count` ConfigMaps reached a watcher.
async fn see_all(api: Api<ConfigMap>, version: String, count: usize) -> anyhow::Result<BTreeMap<String, Instant>> {
    let mut seen = BTreeMap::new();
    let mut watch = api.watch(&WatchParams::default().labels("bench=creates"), &version).await?.boxed();
    while seen.len() < count {
        let event =
            tokio::time::timeout(Duration::from_secs(30), watch.try_next()).await.context("the watch is silent")??;
        match event {
            Some(WatchEvent::Added(map)) => {
                seen.insert(map.metadata.name.unwrap_or_default(), Instant::now());
            }
            Some(_) => {}
            None => anyhow::bail!("the watch ended after {} events", seen.len()),
        }
    }
    Ok(seen)
}

async fn start_pods(api: &Api<Pod>, prefix: &str, count: usize) -> anyhow::Result<()> {
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut watch = api.watch(&WatchParams::default().labels("bench=pods"), &version).await?.boxed();
    let creates = (0..count).map(|number| async move {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": format!("{prefix}-{number}"), "labels": {"bench": "pods"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c",
                "image": "docker.io/library/testbed:local", "command": ["/testbed", "sleep"]}]}
        }))?;
        anyhow::Ok(api.create(&PostParams::default(), &pod).await?)
    });
    futures::future::try_join_all(creates).await?;
    let mut ready = std::collections::BTreeSet::new();
    while ready.len() < count {
        let event = tokio::time::timeout(Duration::from_secs(60), watch.try_next()).await.context("no pod news")??;
        if let Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event
            && is_ready(&pod)
        {
            ready.insert(pod.metadata.name.unwrap_or_default());
        }
    }
    Ok(())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn end_pods(api: &Api<Pod>) -> anyhow::Result<()> {
    let ours = ListParams::default().labels("bench=pods");
    api.delete_collection(&DeleteParams::default(), &ours).await?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !api.list(&ours).await?.items.is_empty() {
        anyhow::ensure!(Instant::now() < deadline, "the pods of the benchmark do not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
