//! A pod as decisions see it: what it takes, what it demands and what it prefers, read once. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::labels::{LabelSelector, LabelSelectorRequirement, Selector};

use crate::api::{NodeSelectorTerm, Pod, PodAffinityTerm, PreferredNodeTerm, SpreadConstraint, Toleration, Volume};
use crate::resources::Resources;
use crate::selector::Term;

/// Which rules of placement a pod's priority class asks for. From the least to the most important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    BestEffort,
    Batch,
    /// No `gantry.dev/band` label: plain Kubernetes semantics.
    #[default]
    Ordinary,
    Production,
}

impl Band {
    pub fn read(label: Option<&str>) -> Self {
        match label {
            Some("production") => Band::Production,
            Some("batch") => Band::Batch,
            Some("best-effort") => Band::BestEffort,
            _ => Band::Ordinary,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Band::Production => "production",
            Band::Ordinary => "ordinary",
            Band::Batch => "batch",
            Band::BestEffort => "best-effort",
        }
    }

    /// Its requests are reserved; the other bands use what is reserved and idle.
    pub fn is_reserved(self) -> bool {
        matches!(self, Band::Production | Band::Ordinary)
    }
}

/// The least value of the system's own classes; others stay below (as in Kubernetes).
const SYSTEM: i64 = 2_000_000_000;

/// Who goes before whom, in the queue as where somebody must make way: the system's classes, then the bands in their order, and
/// inside a band the class's number. A number never lifts a pod out of its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Importance {
    is_system: bool,
    band: Band,
    priority: i64,
}

impl Importance {
    pub fn of(band: Band, priority: i64) -> Self {
        Self { is_system: priority >= SYSTEM, band, priority }
    }

    /// What takes turns with what by age.
    pub fn level(self) -> (bool, Band) {
        (self.is_system, self.band)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub protocol: String,
    pub address: String,
    pub port: u16,
}

impl HostPort {
    pub fn collides(&self, other: &HostPort) -> bool {
        let any = |address: &str| address == "0.0.0.0" || address == "::";
        self.protocol == other.protocol
            && self.port == other.port
            && (self.address == other.address || any(&self.address) || any(&other.address))
    }
}

/// Which pods a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRule {
    pub selector: Selector,
    /// By name; with `namespace_selector` as well.
    pub namespaces: BTreeSet<String>,
    pub namespace_selector: Option<Selector>,
}

/// Pods to be near or away from, and what "near" means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    pub rule: PodRule,
    pub topology_key: String,
    /// For preferences; 0 in demands.
    pub weight: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    pub max_skew: i64,
    pub topology_key: String,
    pub required: bool,
    pub selector: Selector,
    pub min_domains: i64,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

/// All that decides where a pod may run but its labels. Pods of one template share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spec {
    pub namespace: String,
    /// The uid of the controller that made it.
    pub owner: String,
    pub priority: i64,
    pub class: String,
    pub may_preempt: bool,
    pub requests: Resources,
    pub ports: Vec<HostPort>,
    pub images: Vec<String>,
    /// The PersistentVolumeClaims that it mounts.
    pub claims: Vec<PodClaim>,
    pub node_selector: BTreeMap<String, String>,
    /// `None`: no demand. Otherwise one of the terms matches.
    pub node_terms: Option<Vec<Term>>,
    pub node_preferences: Vec<(i64, Term)>,
    pub tolerations: Vec<Toleration>,
    pub affinity: Vec<AffinityTerm>,
    pub anti_affinity: Vec<AffinityTerm>,
    /// Weighted; negative for anti-affinity.
    pub preferences: Vec<AffinityTerm>,
    pub spread: Vec<Spread>,
    /// The gang that it is placed with.
    pub gang: Option<Gang>,
    /// What its containers get to end by themselves.
    pub grace_s: i64,
}

/// A PersistentVolumeClaim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Of an ephemeral volume: the pod's uid, which must own the claim.
    pub owner: Option<String>,
}

impl PodClaim {
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }
}

/// Pods that are placed together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gang {
    pub name: String,
    /// From the pod's label; a PodGroup says it otherwise.
    pub min_member: Option<u32>,
}

/// A namespace and the labels of pods in it: what other pods' rules look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tags {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    pub name: Box<str>,
    pub uid: Arc<str>,
    /// Which state of its spec this is.
    pub generation: i64,
    pub created_us: i64,
    /// When its machine began with it; `created_us` until then.
    pub started_us: i64,
    /// It is stopping: it takes room but is not counted for spreading.
    pub deleting: bool,
    pub tags: Arc<Tags>,
    pub spec: Arc<Spec>,
}

impl std::ops::Deref for PodInfo {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}

impl PodInfo {
    pub fn read(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let created_us = meta.creation_timestamp.map_or(0, |t| t.micros());
        PodInfo {
            name: meta.name.as_str().into(),
            uid: meta.uid.as_str().into(),
            generation: meta.generation,
            created_us,
            started_us: pod.status.start_time.map_or(created_us, |t| t.micros()),
            deleting: meta.is_deleting(),
            tags: Arc::new(Tags { namespace: meta.namespace.clone(), labels: meta.labels.clone() }),
            spec: Arc::new(Spec::read(pod)),
        }
    }

    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Spec {
    fn read(pod: &Pod) -> Self {
        let (meta, spec) = (&pod.metadata, &pod.spec);
        let affinity = &spec.affinity;
        let node = &affinity.node_affinity;
        let terms = |terms: &[NodeSelectorTerm]| terms.iter().map(Term::read).collect();
        let term = |t: &PodAffinityTerm, weight: i64| affinity_term(t, weight, &meta.namespace, &meta.labels);
        let required = |terms: &[PodAffinityTerm]| terms.iter().map(|t| term(t, 0)).collect();
        let (with, apart) = (&affinity.pod_affinity, &affinity.pod_anti_affinity);
        let preferred = with.preferred_during_scheduling_ignored_during_execution.iter().map(|w| (w, 1));
        let preferred = preferred
            .chain(apart.preferred_during_scheduling_ignored_during_execution.iter().map(|w| (w, -1)))
            .map(|(w, sign)| term(&w.pod_affinity_term, sign * w.weight));
        let node_preference = |p: &PreferredNodeTerm| (p.weight, Term::read(&p.preference));
        Spec {
            namespace: meta.namespace.clone(),
            owner: meta.controller().map(|o| o.uid.to_string()).unwrap_or_default(),
            priority: spec.priority,
            class: spec.priority_class_name.clone(),
            may_preempt: spec.preemption_policy != "Never",
            requests: Resources::of_pod(pod),
            ports: host_ports(pod),
            images: spec.containers.iter().chain(&spec.init_containers).map(|c| c.image.clone()).collect(),
            claims: claims(pod),
            node_selector: spec.node_selector.clone(),
            node_terms: node
                .required_during_scheduling_ignored_during_execution
                .as_ref()
                .map(|s| terms(&s.node_selector_terms)),
            node_preferences: node
                .preferred_during_scheduling_ignored_during_execution
                .iter()
                .map(node_preference)
                .collect(),
            tolerations: spec.tolerations.clone(),
            affinity: required(&with.required_during_scheduling_ignored_during_execution),
            anti_affinity: required(&apart.required_during_scheduling_ignored_during_execution),
            preferences: preferred.collect(),
            spread: spec.topology_spread_constraints.iter().map(|c| spread(c, &meta.labels)).collect(),
            gang: gang(&meta.labels),
            grace_s: spec.termination_grace_period_seconds.unwrap_or(30),
        }
    }
}

/// Of an ephemeral volume the claim is named after the pod and the volume. (Kubernetes: "Ephemeral Volumes".)
fn claims(pod: &Pod) -> Vec<PodClaim> {
    let meta = &pod.metadata;
    let key = |name: &str| format!("{}/{name}", meta.namespace).into();
    let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(PodClaim { key: key(&claim.claim_name), owner: None }),
        (None, Some(_)) => {
            let name = format!("{}-{}", meta.name, volume.name);
            Some(PodClaim { key: key(&name), owner: Some(meta.uid.to_string()) })
        }
        (None, None) => None,
    };
    pod.spec.volumes.iter().filter_map(claim).collect()
}

fn gang(labels: &BTreeMap<String, String>) -> Option<Gang> {
    let name = labels.get("gantry.dev/pod-group")?.clone();
    Some(Gang { name, min_member: labels.get("gantry.dev/min-member").and_then(|n| n.parse().ok()) })
}

fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let spec = &pod.spec;
    // Init containers that end before the others start hold no port (as Kubernetes counts it).
    let sidecars = spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
    let mut taken: Vec<HostPort> = ports
        .filter_map(|port| {
            let number = match port.host_port {
                0 if spec.host_network => port.container_port,
                number => number,
            };
            let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
            (number > 0).then(|| HostPort {
                protocol: or(&port.protocol, "TCP"),
                address: or(&port.host_ip, "0.0.0.0"),
                port: number,
            })
        })
        .collect();
    taken.sort();
    taken.dedup();
    taken
}

/// A missing selector selects nothing; one that cannot be read was refused by the API, so it selects nothing here.
fn selector(read: Option<&LabelSelector>) -> Selector {
    read.and_then(|s| Selector::from_label_selector(s).ok()).unwrap_or_else(Selector::nothing)
}

/// Adds what `matchLabelKeys` stands for: the pod's own values of these labels.
fn narrowed(
    base: Option<&LabelSelector>,
    same: &[String],
    different: &[String],
    own: &BTreeMap<String, String>,
) -> Option<LabelSelector> {
    let mut narrowed = base.cloned()?;
    for (keys, operator) in [(same, "In"), (different, "NotIn")] {
        for key in keys {
            if let Some(value) = own.get(key) {
                let (key, operator, values) = (key.clone(), operator.to_owned(), vec![value.clone()]);
                narrowed.match_expressions.push(LabelSelectorRequirement { key, operator, values });
            }
        }
    }
    Some(narrowed)
}

fn affinity_term(term: &PodAffinityTerm, weight: i64, own_ns: &str, own: &BTreeMap<String, String>) -> AffinityTerm {
    let mut namespaces: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.insert(own_ns.to_owned());
    }
    let base = term.label_selector.as_ref();
    let narrowed = narrowed(base, &term.match_label_keys, &term.mismatch_label_keys, own);
    AffinityTerm {
        rule: PodRule {
            selector: selector(narrowed.as_ref()),
            namespaces,
            namespace_selector: term.namespace_selector.as_ref().map(|s| selector(Some(s))),
        },
        topology_key: term.topology_key.clone(),
        weight,
    }
}

fn spread(constraint: &SpreadConstraint, own: &BTreeMap<String, String>) -> Spread {
    let base = constraint.label_selector.as_ref();
    Spread {
        max_skew: constraint.max_skew.max(1),
        topology_key: constraint.topology_key.clone(),
        required: constraint.when_unsatisfiable != "ScheduleAnyway",
        selector: selector(narrowed(base, &constraint.match_label_keys, &[], own).as_ref()),
        min_domains: constraint.min_domains.unwrap_or(1),
        honor_affinity: constraint.node_affinity_policy != "Ignore",
        honor_taints: constraint.node_taints_policy == "Honor",
    }
}
