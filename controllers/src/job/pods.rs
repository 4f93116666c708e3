//! A job's pods: which are its own, which still count as active, how new ones look, and how long a failing job waits before
//! the next. Never decides how many there are to be.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;
use serde_json::{Value, json};

use super::accounting::FINALIZER;
use super::indexes::Indexes;
use super::roster::{Counts, Roster};
use super::types::{Job, Observed};
use crate::objects::{Pod, compile};
use crate::owner;
use crate::plan::{Plan, Step, Write};

/// Pods of one job that may always wait for a machine. A job whose pods are placed faster may have as many as two seconds bring.
const UNPLACED: usize = 500;
/// Pods created or deleted in one look: another job's turn comes soon.
pub const BURST: usize = 1_000;
/// The first wait after a failure, and the longest.
const BACKOFF_S: u64 = 10;
const BACKOFF_CAP_S: u64 = 600;

pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The job's pods, ended ones too.
pub struct Pods<'a> {
    roster: Cow<'a, Roster>,
    /// Active ones whose deletion was accepted: they count as terminating.
    going: Vec<Arc<Pod>>,
    /// How many may wait for a machine.
    unplaced: usize,
}

impl<'a> Pods<'a> {
    /// Plans adoptions and releases; `None` when the selector selects nothing.
    pub fn claim(plan: &mut Plan, job: &Job, observed: &Observed, roster: &'a Roster) -> Option<Self> {
        let selector = compile(&job.spec.selector)?;
        let matches = |pod: &Pod| selector.matches(&pod.metadata.labels);
        let mut roster = Cow::Borrowed(roster);
        if !roster.all_match(&selector) || observed.orphans.iter().any(|pod| matches(pod)) {
            let all: Vec<Arc<Pod>> = roster.iter().chain(&observed.orphans).cloned().collect();
            let claim = owner::claim(&job.metadata, &kinds::JOB, &all, matches);
            plan.push_all(claim.writes);
            roster = Cow::Owned(Roster::of(claim.owned));
        }
        let seen = observed.deleting.iter().filter_map(|uid| roster.get(uid));
        let going = seen.filter(|pod| pod.is_active()).cloned().collect();
        Some(Pods { roster, going, unplaced: observed.recent_binds.max(UNPLACED) })
    }

    pub fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.roster.get(uid)
    }

    /// The held pods that ended or are told to.
    pub fn ends(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.roster.ends()
    }

    /// A count without those that are going.
    fn count(&self, of: impl Fn(&Counts) -> usize) -> usize {
        let going: usize = self.going.iter().map(|pod| of(&Counts::of(pod))).sum();
        of(&self.roster.counts).saturating_sub(going)
    }

    /// Neither ended nor told to end.
    pub fn active(&self) -> usize {
        self.count(|counts| counts.active)
    }

    pub fn ready(&self) -> usize {
        self.count(|counts| counts.ready)
    }

    /// Told to end and not ended yet.
    pub fn terminating(&self) -> usize {
        self.roster.counts.terminating + self.going.len()
    }

    /// How many more may wait for a machine.
    pub fn room(&self) -> usize {
        self.unplaced.saturating_sub(self.count(|counts| counts.unplaced))
    }

    /// The active pods themselves; as many steps as there are pods.
    pub fn each_active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let going: BTreeSet<&str> = self.going.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        self.roster.iter().filter(move |pod| pod.is_active() && !going.contains(pod.metadata.uid.as_str()))
    }

    /// The active pods that no index needs, as Kubernetes finds them: all but the one furthest along of each, and those of no
    /// index that the job has. They come from a create whose answer was lost, from a second leader, or from fewer completions.
    pub fn surplus(&self, job: &Job, now: Timestamp) -> Vec<&Arc<Pod>> {
        let completions = job.spec.completions.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(0));
        if !job.is_indexed() || !self.roster.has_surplus(completions) {
            return Vec::new();
        }
        let (mut kept, mut surplus) = (BTreeMap::<usize, &Arc<Pod>>::new(), Vec::new());
        for pod in self.each_active() {
            let Some(index) = index(pod).filter(|index| *index < completions) else {
                surplus.push(pod);
                continue;
            };
            let further = |best: &&Arc<Pod>| Pod::deletion_order((best, 0), (pod, 0), now).is_lt();
            match kept.get(&index).map(further) {
                Some(false) => surplus.push(pod),
                _ => surplus.extend(kept.insert(index, pod)),
            }
        }
        surplus
    }

    /// Failures show as restarts, not as failed pods.
    pub fn restarts_in_place(&self) -> bool {
        self.roster.counts.in_place > 0
    }

    pub fn restarts(&self) -> i32 {
        i32::try_from(self.count(|counts| counts.restarts)).unwrap_or(i32::MAX)
    }

    /// Up to `count` of the indexes that nobody has finished or works on, the lowest first.
    pub fn free_indexes(&self, job: &Job, finished: &Indexes, count: usize) -> Vec<usize> {
        let completions = usize::try_from(job.spec.completions.unwrap_or(0)).unwrap_or(0);
        let keeps_place = job.spec.pod_replacement_policy.as_deref() == Some("Failed");
        // Those that are going still keep the place if terminating ones do; otherwise they have lost it.
        let mut lost: Vec<usize> = self.going.iter().filter(|_| !keeps_place).filter_map(|pod| index(pod)).collect();
        let still = self.roster.active_indexes().filter(|index| {
            let found = lost.iter().position(|gone| gone == index);
            found.map(|at| lost.swap_remove(at)).is_none()
        });
        let mut busy: Vec<usize> = still.collect();
        if keeps_place {
            busy.extend(self.roster.going_indexes());
            busy.sort_unstable();
        }
        let mut busy = busy.into_iter().peekable();
        let free = finished.gaps(completions).filter(|index| {
            while busy.next_if(|taken| taken < index).is_some() {}
            busy.peek() != Some(index)
        });
        free.take(count).collect()
    }

    /// How long to wait before the next pod: ten seconds after the last failure, doubled for every one since the last
    /// success, at most ten minutes.
    pub fn backoff(&self, now: Timestamp) -> Option<Duration> {
        let (recent, last) = self.roster.failures()?;
        let exponent = u32::try_from(recent - 1).unwrap_or(u32::MAX).min(10);
        let wait_s = (BACKOFF_S << exponent).min(BACKOFF_CAP_S);
        let due = last + Duration::from_secs(wait_s);
        Some(due.since(now)).filter(|wait| !wait.is_zero())
    }
}

/// The index that a pod works on.
pub fn index(pod: &Pod) -> Option<usize> {
    pod.metadata.annotations.get(INDEX)?.parse().ok()
}

/// Deletes up to `count` of the active pods, the least valuable first. Those that are not to be `counted` as failed (the job
/// is suspended, shrinks, or has succeeded) lose the accounting finalizer first.
pub fn delete<'a>(
    job: &Job,
    active: impl Iterator<Item = &'a Arc<Pod>>,
    now: Timestamp,
    count: usize,
    counted: bool,
) -> Vec<Step> {
    let on = owner::reference(&kinds::JOB, &job.metadata);
    let mut ranked: Vec<&Pod> = active.map(|pod| &**pod).collect();
    ranked.sort_by(|a, b| Pod::deletion_order((a, 0), (b, 0), now));
    ranked.truncate(count);
    let mut steps = Vec::new();
    if !counted {
        let release = |pod: &&Pod| owner::remove_finalizer(&kinds::POD, &pod.metadata, FINALIZER);
        steps.push(Step::All(ranked.iter().filter_map(release).collect()));
    }
    let delete = |pod: &Pod| {
        let options = DeleteOptions::uid(pod.metadata.uid.to_string());
        Write::delete(&kinds::POD, &pod.metadata.namespace, &pod.metadata.name, options).announced(
            &on,
            Some(("SuccessfulDelete", "Deleted pod: {name}")),
            Some(("FailedDelete", "Error deleting: {error}")),
        )
    };
    steps.push(Step::All(ranked.into_iter().map(delete).collect()));
    steps.retain(|step| !matches!(step, Step::All(writes) if writes.is_empty()));
    steps
}

/// A pod of the job, held by the accounting finalizer. An indexed one knows its index by annotation, label, host name and
/// the environment of its containers.
pub fn create(job: &Job, index: Option<usize>) -> Write {
    let mut pod = owner::pod_from_template(&job.spec.template.value(), &job.metadata, &kinds::JOB);
    let finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let finalizers: Vec<Value> = finalizers.into_iter().filter(|f| f != FINALIZER).chain([json!(FINALIZER)]).collect();
    pod["metadata"]["finalizers"] = json!(finalizers);
    if let Some(index) = index {
        let name = format!("{}-{index}", job.metadata.name);
        pod["metadata"]["generateName"] = json!(owner::generate_name(&name));
        pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
        pod["metadata"]["labels"][INDEX] = json!(index.to_string());
        if pod["spec"]["hostname"].is_null() {
            pod["spec"]["hostname"] = json!(name);
        }
        for containers in ["containers", "initContainers"] {
            let each = pod["spec"].get_mut(containers).and_then(Value::as_array_mut);
            each.into_iter().flatten().for_each(name_index);
        }
    }
    let on = owner::reference(&kinds::JOB, &job.metadata);
    Write::create(&kinds::POD, &job.metadata.namespace, pod).announced(
        &on,
        Some(("SuccessfulCreate", "Created pod: {name}")),
        Some(("FailedCreate", "Error creating: {error}")),
    )
}

fn name_index(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut env = container["env"].as_array().cloned().unwrap_or_default();
    if env.iter().any(|e| e["name"] == NAME) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    env.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}));
    container["env"] = json!(env);
}
