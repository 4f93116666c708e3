//! Runs jobs to completion.

mod accounting;
mod binds;
#[cfg(test)]
mod burst;
mod core;
mod indexes;
mod pods;
mod roster;
mod rosters;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Header, Object, Uid};
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use accounting::held_for;
use rosters::{Rosters, Shared};
pub use types::Job;
use types::Observed;

use crate::edge::{Controller, Env, Feeds, HELD_BY_NOBODY, Key, Memory, OWNER, orphans};
use crate::objects::{Pod, compile};
use crate::plan::Plan;

/// The loop's edge. Keys are jobs, there or gone; one without a name stands for a namespace's pods that lost their job.
pub struct Jobs {
    rosters: Arc<Rosters>,
}

/// What is looked at, and the job's roster, which is read in place.
pub struct Look {
    observed: Observed,
    roster: Shared,
}

/// A job of fewer pods never waits.
const SMALL: usize = 100;
const SHORTEST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_millis(200);

/// How long a job of so many pods is left alone after a look: what happens meanwhile is handled at once, with one write of its
/// status.
fn rest(pods: usize) -> Duration {
    if pods < SMALL {
        return Duration::ZERO;
    }
    Duration::from_micros(2 * pods as u64).clamp(SHORTEST_REST, LONGEST_REST)
}

impl Controller for Jobs {
    type Observed = Look;
    const NAME: &'static str = "job";
    const COMPONENT: &'static str = "job-controller";
    const WORKERS: usize = 8;

    fn new(env: &Arc<Env>) -> Self {
        let rosters = Arc::new(Rosters::default());
        let (view, clock) = (rosters.clone(), env.clock.clone());
        env.informers.pods.add_view(move |old, new| view.change(old, new, clock.boottime_ms()));
        Jobs { rosters }
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

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Look>, ApiError> {
        let job = env.informers.jobs.get(&key.namespace, &key.name);
        let left = self.left(env, key, job.as_deref()).await?;
        let Some(uid) = job.as_deref().map(Object::uid) else {
            let observed = Observed { left, ..Observed::default() };
            return Ok((!observed.left.is_empty()).then(|| Look { observed, roster: Shared::default() }));
        };
        let roster = self.rosters.of(key, uid);
        let orphans = env.informers.pods.by_index(OWNER, &orphans(&key.namespace));
        let recent_binds = roster.read().recent_binds(env.clock.boottime_ms());
        let observed = Observed { job, left, orphans, deleting: memory.deleting(), recent_binds };
        Ok(Some(Look { observed, roster }))
    }

    fn reconcile(look: &Look, now: Timestamp) -> Plan {
        core::reconcile(&look.observed, &look.roster.read(), now)
    }

    fn rest(look: &Look) -> Duration {
        rest(look.roster.read().len() + look.observed.left.len())
    }
}

impl Jobs {
    /// The pods that an earlier job of the key's name left behind.
    async fn left(&self, env: &Env, key: &Key, job: Option<&Job>) -> Result<Vec<Arc<Pod>>, ApiError> {
        if key.name.is_empty() {
            let nobodys = env.informers.pods.by_index(HELD_BY_NOBODY, &key.namespace);
            return Ok(unclaimed(nobodys, &env.informers.jobs.list_namespace(&key.namespace)));
        }
        if self.rosters.left_behind(key, job.map(Object::uid)).is_empty() {
            return Ok(Vec::new());
        }
        // The copy of the pods may be ahead of that of the jobs: these may belong to a job that is new.
        Ok(self.rosters.left_behind(key, present(env, key).await?.as_ref()))
    }
}

fn adopts(job: &Job, pod: &Pod) -> bool {
    !job.metadata.is_deleting() && compile(&job.spec.selector).is_some_and(|s| s.matches(&pod.metadata.labels))
}

/// Those of nobody's held pods that no job will adopt.
fn unclaimed(held: Vec<Arc<Pod>>, jobs: &[Arc<Job>]) -> Vec<Arc<Pod>> {
    held.into_iter().filter(|pod| !jobs.iter().any(|job| adopts(job, pod))).collect()
}

/// The uid of the job of this name, asked live.
async fn present(env: &Env, key: &Key) -> Result<Option<Uid>, ApiError> {
    match env.client.get::<Header>(&kinds::JOB, &key.namespace, &key.name).await {
        Ok(found) => Ok(Some(found.metadata.uid)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
