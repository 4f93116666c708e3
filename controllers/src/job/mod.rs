//! Runs jobs to completion.

mod accounting;
mod core;
mod indexes;
mod pods;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use types::Job;
use types::Observed;

use crate::edge::{Controller, Env, Feeds, Informers, Key, Memory};
use crate::objects::{Pod, compile};
use crate::plan::Plan;

/// The loop's edge. Keys are jobs.
pub struct Jobs;

impl Controller for Jobs {
    type Observed = Observed;
    const NAME: &'static str = "job";
    const COMPONENT: &'static str = "job-controller";
    const WORKERS: usize = 8;

    fn new(_env: &Arc<Env>) -> Self {
        Jobs
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.jobs, |job: &Job| vec![Key::of(job)]);
        let jobs = env.informers.jobs.clone();
        feeds.on(&env.informers.pods, move |pod: &Pod| match pod.owner() {
            Some(owner) if owner.kind == "Job" => vec![Key::new(pod.namespace(), &owner.name)],
            Some(_) => Vec::new(),
            None => {
                let adopts =
                    |job: &&Arc<Job>| compile(&job.spec.selector).is_some_and(|s| s.matches(&pod.metadata.labels));
                jobs.list_namespace(pod.namespace()).iter().filter(adopts).map(|job| Key::of(&**job)).collect()
            }
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.jobs.list().iter().map(|job| Key::of(&**job)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(job) = env.informers.jobs.get(&key.namespace, &key.name) else { return Ok(None) };
        let pods = Informers::candidates(&env.informers.pods, job.uid(), &key.namespace);
        Ok(Some(Observed { job, pods, deleting: memory.deleting() }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}
