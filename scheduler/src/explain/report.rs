//! Everything that can be said about why a pod waits, or where pods like it would fit: what `gantry explain` and `gantry fits`
//! show. Decides nothing; it asks the same filters as the decision.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{amount, headline};
use crate::class::Class;
use crate::plugins::{PLUGINS, Reason};
use crate::pod::PodInfo;
use crate::schedule;
use crate::snapshot::{Machine, Snapshot};

/// Machines that are told of one by one.
const NEAREST: usize = 3;

/// The answer to a PlacementReview.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Machines that there are, and those that would take one such pod now.
    pub machines: usize,
    pub feasible: usize,
    /// In the order in which filters are asked; only those that removed any.
    pub filters: Vec<Filtered>,
    pub nearest: Vec<Near>,
    /// Whether ending pods could help; not where a machine would take it as things are.
    pub preemption: Option<Preempting>,
    /// What is under way to make room for it.
    pub making_room: Option<MakingRoom>,
    pub queue: Option<Queued>,
    pub team: Option<TeamShare>,
    pub gang: Option<GangState>,
    pub band: String,
    pub priority: i64,
    /// For a template: how many of its replicas would find a place, and on which machines.
    pub fits: Option<Fits>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    pub filter: String,
    /// Machines that this filter refused and none before it did.
    pub removed: usize,
    pub reasons: Vec<Counted>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    pub reason: String,
    pub machines: usize,
}

/// A machine that would almost do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Near {
    pub machine: String,
    pub lacks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preempting {
    pub possible: bool,
    pub why: String,
    pub machine: Option<String>,
    #[serde(flatten)]
    pub victims: Victims,
}

/// Pods that end for another one. Those of other namespaces are counted only: who asks may not see them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Victims {
    /// Their names, in the namespace of the question.
    pub victims: Vec<String>,
    pub victims_elsewhere: usize,
}

impl Victims {
    pub fn seen_from<'a>(namespace: &str, pods: impl Iterator<Item = &'a PodInfo>) -> Self {
        let mut victims = Victims::default();
        for pod in pods {
            match pod.namespace == namespace {
                true => victims.victims.push(pod.name.to_string()),
                false => victims.victims_elsewhere += 1,
            }
        }
        victims
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MakingRoom {
    /// Kept for the pod.
    pub machine: String,
    /// Those that still end.
    #[serde(flatten)]
    pub victims: Victims,
    /// Nobody is ended: the machine is kept so long, for what ends by itself.
    pub kept_for_seconds: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangState {
    pub name: String,
    /// How many start together; none while nobody has said it.
    pub min_member: Option<u32>,
    /// A PodGroup says it, not a label.
    pub has_object: bool,
    /// Pods that there are, and those of them that have their machine.
    pub exist: usize,
    pub placed: usize,
    /// How many of those without a machine would find a place now, one after another.
    pub fit: usize,
}

impl GangState {
    /// Enough of them have their machines: the others go by themselves.
    pub fn is_started(&self) -> bool {
        self.min_member.is_some_and(|min| self.placed >= min as usize)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// `Ready`, `Waiting`, `Sleeping`, `Binding` or `Gang`.
    pub state: String,
    /// Ready pods that go before it.
    pub ahead: usize,
    pub attempts: u32,
    /// When it is looked at again without anything happening.
    pub again_in_seconds: Option<u64>,
    pub waited_seconds: u64,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamShare {
    pub name: String,
    /// The dominant part of the cluster that the team uses and has used, over its weight.
    pub share: f64,
    /// Teams that have less, and go before it.
    pub before: usize,
    pub teams: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fits {
    pub asked: usize,
    pub fit: usize,
    /// How many machines they would use.
    pub machines: usize,
    /// The machines that would take most, the fullest first.
    pub on: Vec<Taking>,
    /// Why the next one would not fit. Then `filters`, `nearest` and `preemption` are about that one.
    pub next: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taking {
    pub machine: String,
    pub replicas: usize,
}

impl Report {
    /// The answer in one line.
    pub fn summary(&self) -> String {
        match (&self.fits, &self.queue) {
            (Some(fits), _) if fits.fit == fits.asked => format!("all {} would fit", fits.asked),
            (Some(fits), _) => {
                let next = fits.next.as_deref().unwrap_or_default();
                format!("{} of {} would fit; the next would not: {next}", fits.fit, fits.asked)
            }
            (None, Some(queue)) if !queue.message.is_empty() => queue.message.clone(),
            _ => format!("{} of {} machines would take it now", self.feasible, self.machines),
        }
    }
}

/// What the filters say of each machine.
pub fn filters(snapshot: &Snapshot, class: &Class) -> Report {
    let mut report = Report { band: class.band.name().to_owned(), priority: class.spec.priority, ..Report::default() };
    let mut removed: BTreeMap<usize, (usize, BTreeMap<Reason, usize>)> = BTreeMap::new();
    let mut near: Vec<(usize, usize, u64, Machine)> = Vec::new();
    for machine in snapshot.machines() {
        report.machines += 1;
        let mut reasons = Vec::new();
        let Some(plugin) = schedule::refuse(snapshot, class, machine, &mut reasons) else {
            report.feasible += 1;
            continue;
        };
        // What is held is no filter of its own: it is told behind all of them.
        let plugin = if reasons == [Reason::Held] { PLUGINS.len() } else { plugin };
        let entry = removed.entry(plugin).or_default();
        entry.0 += 1;
        for reason in reasons {
            *entry.1.entry(reason.headline()).or_insert(0) += 1;
        }
        let all = all_reasons(snapshot, class, machine);
        let misfits = all.iter().filter(|reason| is_misfit(reason)).count();
        near.push((misfits, all.len(), all.iter().map(missing).sum(), machine));
    }
    let told = |(plugin, (removed, reasons)): (usize, (usize, BTreeMap<Reason, usize>))| {
        let mut reasons: Vec<Counted> = reasons
            .into_iter()
            .map(|(reason, machines)| Counted { reason: headline(snapshot, &reason), machines })
            .collect();
        reasons.sort_by_key(|counted| std::cmp::Reverse(counted.machines));
        Filtered { filter: PLUGINS.get(plugin).map_or("KeptRoom", |plugin| plugin.name).to_owned(), removed, reasons }
    };
    report.filters = removed.into_iter().map(told).collect();
    near.sort_by_key(|(misfits, count, missing, machine)| (*misfits, *count, *missing, snapshot.name(*machine)));
    report.nearest = near.into_iter().take(NEAREST).map(|(.., machine)| nearest(snapshot, class, machine)).collect();
    report
}

/// What all filters have against the machine.
fn all_reasons(snapshot: &Snapshot, class: &Class, machine: Machine) -> Vec<Reason> {
    let mut all = Vec::new();
    for (_, check) in &class.checks {
        check.refuse(snapshot, machine, &[], &mut all);
    }
    all
}

/// The machine is of another kind than is asked for: it is far off, whatever is free there.
fn is_misfit(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::NodeAffinity
            | Reason::NoDomain(_)
            | Reason::Claim(..)
            | Reason::VolumeAffinity(_)
            | Reason::VolumeZone(_)
            | Reason::NoVolume(_)
            | Reason::Elsewhere(..)
    )
}

/// How far off the machine is in thousandths of what is asked for.
fn missing(reason: &Reason) -> u64 {
    match reason {
        Reason::Short { wants, free, .. } => {
            let part = (i128::from(*wants) - i128::from(*free)) * 1000 / i128::from((*wants).max(1));
            u64::try_from(part).unwrap_or(0)
        }
        // What could end there is nearer than what would have to be another machine.
        other if other.is_preemptible() => 500,
        _ => 1000,
    }
}

fn nearest(snapshot: &Snapshot, class: &Class, machine: Machine) -> Near {
    let lacks = all_reasons(snapshot, class, machine);
    let lacks = lacks.iter().map(|reason| lack(snapshot, class, machine, reason)).collect();
    Near { machine: snapshot.name(machine).to_owned(), lacks }
}

/// What one machine lacks, as the end of "it is …".
fn lack(snapshot: &Snapshot, class: &Class, machine: Machine, reason: &Reason) -> String {
    match reason {
        Reason::Short { resource, wants, free } => {
            let amount = |n: i64| amount(snapshot, *resource, n);
            let (name, more) = (resource.name(snapshot), amount(wants - free));
            format!("short of {name}: wants {}, {} free ({more} more)", amount(*wants), amount(*free))
        }
        Reason::NodeAffinity => unmatched(snapshot, class, machine),
        other => headline(snapshot, other),
    }
}

/// Which labels the machine would need for the pod's node selector and affinity.
fn unmatched(snapshot: &Snapshot, class: &Class, machine: Machine) -> String {
    let (name, labels) = (snapshot.name(machine), snapshot.labels(machine));
    let mut lacks = Vec::new();
    for (key, value) in &class.spec.node_selector {
        match labels.get(key) {
            Some(has) if has == value => {}
            Some(has) => lacks.push(format!("label {key}={value} (it has {key}={has})")),
            None => lacks.push(format!("label {key}={value}")),
        }
    }
    let terms = class.spec.node_terms.iter().flatten();
    // Of several terms one is enough: the one that it is nearest to.
    let closest = terms
        .map(|term| (term.matches(name, labels), term.unmet(name, labels)))
        .min_by_key(|(matches, unmet)| (!matches, unmet.len()));
    match closest {
        Some((false, unmet)) => lacks.extend(unmet),
        None if class.spec.node_terms.is_some() => lacks.push("any term of its node affinity".to_owned()),
        _ => {}
    }
    format!("without {}, which the pod asks for", lacks.join(", "))
}

#[cfg(test)]
mod tests;
