//! Runs jobs to completion.

mod accounting;
mod core;
mod indexes;
mod pods;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Header, Object, Uid};
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use accounting::held_for;
pub use types::Job;
use types::Observed;

use crate::edge::{Controller, Env, Feeds, HELD_FOR_JOB, Informers, Key, Memory};
use crate::objects::{Pod, compile};
use crate::plan::Plan;

/// The loop's edge. Keys are jobs, there or gone; one without a name stands for a namespace's pods that lost their job.
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
                let jobs = jobs.list_namespace(pod.namespace());
                let adopting = jobs.iter().filter(|job| adopts(job, pod)).map(|job| Key::of(&**job));
                let nobodys = accounting::held_for(pod).map(|none| Key::new(pod.namespace(), none));
                adopting.chain(nobodys).collect()
            }
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        let mut keys: BTreeSet<Key> = env.informers.jobs.list().iter().map(|job| Key::of(&**job)).collect();
        // A job that is gone may have left pods behind.
        let held = |pod: &Arc<Pod>| Some(Key::new(pod.namespace(), accounting::held_for(pod)?));
        keys.extend(env.informers.pods.list().iter().filter_map(held));
        keys.into_iter().collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let job = env.informers.jobs.get(&key.namespace, &key.name);
        let left = left(env, key, job.as_deref()).await?;
        let pods = match &job {
            Some(job) => Informers::candidates(&env.informers.pods, job.uid(), &key.namespace),
            None if left.is_empty() => return Ok(None),
            None => Vec::new(),
        };
        Ok(Some(Observed { job, left, pods, deleting: memory.deleting() }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}

fn adopts(job: &Job, pod: &Pod) -> bool {
    !job.metadata.is_deleting() && compile(&job.spec.selector).is_some_and(|s| s.matches(&pod.metadata.labels))
}

/// The pods that an earlier job of the key's name left behind.
async fn left(env: &Env, key: &Key, job: Option<&Job>) -> Result<Vec<Arc<Pod>>, ApiError> {
    let held = env.informers.pods.by_index(HELD_FOR_JOB, &format!("{}/{}", key.namespace, key.name));
    if key.name.is_empty() && !held.is_empty() {
        return Ok(unclaimed(held, &env.informers.jobs.list_namespace(&key.namespace)));
    }
    let left = left_behind(held, job.map(Object::uid));
    if left.is_empty() {
        return Ok(left);
    }
    // The copy of the pods may be ahead of that of the jobs: these may belong to a job that is new.
    Ok(left_behind(left, present(env, key).await?.as_ref()))
}

/// Those of nobody's held pods that no job will adopt.
fn unclaimed(held: Vec<Arc<Pod>>, jobs: &[Arc<Job>]) -> Vec<Arc<Pod>> {
    held.into_iter().filter(|pod| !jobs.iter().any(|job| adopts(job, pod))).collect()
}

/// Those of the held pods that no job of this uid owns.
fn left_behind(held: Vec<Arc<Pod>>, job: Option<&Uid>) -> Vec<Arc<Pod>> {
    held.into_iter().filter(|pod| pod.owner().is_some_and(|owner| Some(&owner.uid) != job)).collect()
}

/// The uid of the job of this name, asked live.
async fn present(env: &Env, key: &Key) -> Result<Option<Uid>, ApiError> {
    match env.client.get::<Header>(&kinds::JOB, &key.namespace, &key.name).await {
        Ok(found) => Ok(Some(found.metadata.uid)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
