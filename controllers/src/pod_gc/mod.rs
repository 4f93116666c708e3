//! Removes pods that nobody else would.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Header;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;
use parking_lot::Mutex;

use types::Observed;

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::Pod;
use crate::plan::Plan;

const PERIOD: Duration = Duration::from_secs(20);
/// A machine must be missing for this long before its pods are taken for stranded.
const QUARANTINE_MS: u64 = 40_000;

/// The loop's edge. One key stands for all pods.
pub struct PodGc {
    /// Machines that pods name and that do not exist, with when (boot time) that was first seen.
    missing: Mutex<BTreeMap<String, u64>>,
}

impl Controller for PodGc {
    type Observed = Observed;
    const NAME: &'static str = "pod-gc";
    const COMPONENT: &'static str = "pod-garbage-collector";
    const WORKERS: usize = 1;

    fn new(_env: &Arc<Env>) -> Self {
        PodGc { missing: Mutex::default() }
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.every(PERIOD, Key::all());
        // A pod that is told to go before it was placed has nobody who could stop it: remove it at once.
        feeds.on_change(&env.informers.pods, |_, new: Option<&Pod>| match new {
            Some(pod) if pod.is_terminating() && pod.node().is_none() => vec![Key::all()],
            _ => Vec::new(),
        });
    }

    fn keys(_env: &Env) -> Vec<Key> {
        vec![Key::all()]
    }

    async fn observe(&self, env: &Env, _: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let pods = memory.remaining(env.informers.pods.list());
        let exists = |node: &str| env.informers.nodes.get("", node).is_some();
        let stranded = |pod: &&Arc<Pod>| match pod.node() {
            Some(node) => !exists(node),
            None => pod.is_terminating(),
        };
        let stranded: Vec<Arc<Pod>> = pods.iter().filter(stranded).cloned().collect();
        let gone = self.gone(env, stranded.iter().filter_map(|pod| pod.node())).await?;
        let finished = pods.into_iter().filter(|pod| pod.is_finished() && !pod.is_terminating()).collect();
        Ok(Some(Observed { finished, kept: env.config.terminated_pods_kept, stranded, gone }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}

impl PodGc {
    /// Which of these machines have been missing for long enough, and are missing on the server too.
    async fn gone<'a>(&self, env: &Env, nodes: impl Iterator<Item = &'a str>) -> Result<BTreeSet<String>, ApiError> {
        let now = env.clock.boottime_ms();
        let due: Vec<String> = {
            let mut missing = self.missing.lock();
            let named: BTreeSet<&str> = nodes.collect();
            missing.retain(|node, _| named.contains(node.as_str()));
            for node in &named {
                missing.entry((*node).to_owned()).or_insert(now);
            }
            let due = missing.iter().filter(|(_, since)| now.saturating_sub(**since) >= QUARANTINE_MS);
            due.map(|(node, _)| node.clone()).collect()
        };
        let mut gone = BTreeSet::new();
        for node in due {
            match env.client.get::<Header>(&kinds::NODE, "", &node).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => drop(gone.insert(node)),
                Err(error) => return Err(error),
            }
        }
        Ok(gone)
    }
}
