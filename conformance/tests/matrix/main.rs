//! The matrix of clients: three versions of kubectl, two of Helm with three charts, and client libraries of five languages,
//! against one cluster of the built binary with real containers. Versions of one client run side by side in namespaces of
//! their own: most of their time is waiting.

mod access;
mod helm;
mod libraries;
mod objects;
mod operators;
mod rust;
mod streams;
mod workloads;

use anyhow::Context;
use gantry_conformance::{Cluster, ClusterOptions, Kubectl, case, namespace, runner, tools};
use std::process::ExitCode;

/// kubectl 1.35 is the server's own version, the others are its neighbours: what Kubernetes lets differ.
const MINORS: [u32; 3] = [34, 35, 36];

fn main() -> anyhow::Result<ExitCode> {
    namespace::enter()?;
    let cluster = Cluster::start(ClusterOptions::default())?;
    let cases = [
        case!(objects::kubectl_keeps_objects),
        case!(workloads::kubectl_runs_workloads),
        case!(streams::kubectl_reaches_into_pods),
        case!(access::kubectl_asks_who_may_what),
        case!(helm::a_web_application),
        case!(helm::a_database),
        case!(helm::an_operator),
        case!(libraries::python_client),
        case!(libraries::python_operator_on_kopf),
        case!(libraries::typescript_client),
        case!(libraries::go_client),
        case!(libraries::go_manager),
        case!(rust::rust_client),
        case!(rust::rust_controller),
    ];
    let passed = runner::run(&cluster, &cases, |cluster| eprintln!("{}", cluster.story()));
    cluster.down()?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `body` with each version of kubectl at the same time, each in a namespace of its own.
fn each_kubectl(cluster: &Cluster, area: &str, body: fn(&Kubectl, u32) -> anyhow::Result<()>) -> anyhow::Result<()> {
    side_by_side(&MINORS, |&minor| {
        let name = if minor == 35 { "kubectl".to_owned() } else { format!("kubectl-1.{minor}") };
        let kubectl = cluster.kubectl.of_version(tools::tool(&name)?);
        kubectl.with_namespace(&format!("{area}-{minor}"), |kubectl| body(kubectl, minor)).context(name)
    })
}

/// Runs `body` for all of `these` at once; the first error is the answer.
fn side_by_side<T: Sync>(these: &[T], body: impl Fn(&T) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = these.iter().map(|one| scope.spawn(|| body(one))).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| anyhow::bail!("a panic")))
    })
}

/// Every one of `words` stands in `text`.
fn contains_all(text: &str, words: &[&str]) -> anyhow::Result<()> {
    for word in words {
        anyhow::ensure!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    Ok(())
}
