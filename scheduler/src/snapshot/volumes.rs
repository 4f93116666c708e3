//! Claims, volumes, storage classes and what machines take of a driver, as far as decisions need them; and which placed pods
//! use which claims. Decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::quantity::Quantity;

use super::pods::{Placed, Standing};
use super::{Machine, Snapshot};
use crate::api;
use crate::api::{NodeRequirement, NodeSelectorTerm};
use crate::selector::Term;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The class makes no volumes: they are there, or they are not.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What a claim asks of a volume, and a volume offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    pub class: String,
    pub attributes: String,
    pub is_block: bool,
    pub modes: Vec<String>,
    pub bytes: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub uid: String,
    pub revision: String,
    /// The uid of the controller that made it: of an ephemeral volume the pod's.
    pub owner: String,
    pub is_deleting: bool,
    pub is_lost: bool,
    /// Empty while it has none.
    pub volume: String,
    /// The binding is complete.
    pub is_bound: bool,
    pub wants: Kind,
    pub selector: Option<Selector>,
    /// The machine on which its volume is being made.
    pub selected: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: Arc<str>,
    pub revision: String,
    pub has: Kind,
    pub labels: BTreeMap<String, String>,
    /// One of them matches the machine; `None`: any machine will do.
    pub terms: Option<Vec<Term>>,
    /// The claim that it is for, `namespace/name`, and the claim's uid where that is settled.
    pub claim: Option<(Arc<str>, String)>,
    pub is_available: bool,
    pub is_deleting: bool,
    /// Of a CSI volume: its driver and what the driver calls it.
    pub csi: Option<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    pub provisioner: String,
    /// Its claims wait for a pod that needs them.
    pub is_late: bool,
    /// Where its volumes can be made; `None`: anywhere.
    pub terms: Option<Vec<Term>>,
}

impl StorageClass {
    pub fn makes_volumes(&self) -> bool {
        self.provisioner != NO_PROVISIONER
    }
}

#[derive(Debug, Default)]
pub(super) struct Volumes {
    claims: HashMap<Arc<str>, Claim>,
    volumes: BTreeMap<String, Volume>,
    /// By storage class, those that are for no claim: the smallest first.
    free: HashMap<String, BTreeSet<(i64, Arc<str>)>>,
    /// By claim, those that are for it.
    meant: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    classes: HashMap<String, StorageClass>,
    /// By machine and driver.
    limits: HashMap<String, BTreeMap<String, i64>>,
    /// Placed pods with claims.
    on: HashMap<Machine, Vec<Placed>>,
    users: HashMap<Arc<str>, Vec<Arc<str>>>,
}

fn bytes(amounts: &api::Amounts) -> i64 {
    amounts.get("storage").map_or(0, Quantity::value)
}

fn terms(terms: &[NodeSelectorTerm]) -> Vec<Term> {
    terms.iter().map(Term::read).collect()
}

impl Claim {
    fn read(claim: &api::PersistentVolumeClaim) -> Self {
        let (meta, spec) = (&claim.metadata, &claim.spec);
        let is_phase = |phase: &str| claim.status.phase == phase;
        Claim {
            uid: meta.uid.to_string(),
            revision: meta.resource_version.clone(),
            owner: meta.controller().map(|owner| owner.uid.to_string()).unwrap_or_default(),
            is_deleting: meta.is_deleting(),
            is_lost: is_phase("Lost"),
            volume: spec.volume_name.clone(),
            is_bound: is_phase("Bound") || meta.annotations.contains_key(BIND_COMPLETED),
            wants: Kind {
                class: spec.storage_class_name.clone(),
                attributes: spec.volume_attributes_class_name.clone(),
                is_block: spec.volume_mode == "Block",
                modes: spec.access_modes.clone(),
                bytes: bytes(&spec.resources.requests),
            },
            // One that cannot be read was refused by the API: it selects nothing here.
            selector: spec
                .selector
                .as_ref()
                .map(|s| Selector::from_label_selector(s).unwrap_or_else(|_| Selector::nothing())),
            selected: meta.annotations.get(SELECTED_NODE).map(|node| node.as_str().into()),
        }
    }

    pub fn is_for_one_pod(&self) -> bool {
        self.wants.modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

impl Volume {
    fn read(volume: &api::PersistentVolume) -> Self {
        let (meta, spec) = (&volume.metadata, &volume.spec);
        let claim = spec.claim_ref.as_ref();
        Volume {
            name: meta.name.as_str().into(),
            revision: meta.resource_version.clone(),
            has: Kind {
                class: spec.storage_class_name.clone(),
                attributes: spec.volume_attributes_class_name.clone(),
                is_block: spec.volume_mode == "Block",
                modes: spec.access_modes.clone(),
                bytes: bytes(&spec.capacity),
            },
            labels: meta.labels.clone(),
            terms: spec.node_affinity.required.as_ref().map(|required| terms(&required.node_selector_terms)),
            claim: claim.map(|claim| (format!("{}/{}", claim.namespace, claim.name).into(), claim.uid.clone())),
            is_available: volume.status.phase == "Available",
            is_deleting: meta.is_deleting(),
            csi: spec.csi.as_ref().map(|csi| (csi.driver.clone(), csi.volume_handle.clone())),
        }
    }
}

impl StorageClass {
    /// A topology term without requirements selects nothing; without terms any machine will do.
    fn read(class: &api::StorageClass) -> Self {
        let requirement = |r: &api::TopologyRequirement| NodeRequirement {
            key: r.key.clone(),
            operator: "In".to_owned(),
            values: r.values.clone(),
        };
        let term = |term: &api::TopologyTerm| NodeSelectorTerm {
            match_expressions: term.match_label_expressions.iter().map(requirement).collect(),
            ..NodeSelectorTerm::default()
        };
        let allowed: Vec<_> = class.allowed_topologies.iter().map(term).collect();
        StorageClass {
            provisioner: class.provisioner.clone(),
            is_late: class.volume_binding_mode == "WaitForFirstConsumer",
            terms: (!allowed.is_empty()).then(|| terms(&allowed)),
        }
    }
}

impl Volumes {
    /// A pod comes to a machine or goes. Those without claims cost nothing.
    pub fn count(&mut self, placed: &Placed, comes: bool) {
        let claims = &placed.info.claims;
        if claims.is_empty() {
            return;
        }
        let uid = &placed.info.uid;
        let on = self.on.entry(placed.machine).or_default();
        if comes {
            on.push(placed.clone());
        } else if let Some(at) = on.iter().position(|other| other.info.uid == *uid) {
            on.remove(at);
        }
        if on.is_empty() {
            self.on.remove(&placed.machine);
        }
        // Room that is kept for a pod is not the pod.
        if placed.standing == Standing::Held {
            return;
        }
        for claim in claims {
            let users = self.users.entry(claim.key.clone()).or_default();
            if comes {
                users.push(uid.clone());
            } else if let Some(at) = users.iter().position(|user| user == uid) {
                users.remove(at);
            }
            if users.is_empty() {
                self.users.remove(&claim.key);
            }
        }
    }

    fn list(&mut self, volume: &Volume, is_there: bool) {
        if volume.is_deleting {
            return;
        }
        match &volume.claim {
            Some((claim, _)) => {
                let of_claim = self.meant.entry(claim.clone()).or_default();
                let _ = if is_there { of_claim.insert(volume.name.clone()) } else { of_claim.remove(&volume.name) };
                if of_claim.is_empty() {
                    self.meant.remove(claim);
                }
            }
            None if volume.is_available => {
                let of_class = self.free.entry(volume.has.class.clone()).or_default();
                let key = (volume.has.bytes, volume.name.clone());
                let _ = if is_there { of_class.insert(key) } else { of_class.remove(&key) };
                if of_class.is_empty() {
                    self.free.remove(&volume.has.class);
                }
            }
            None => {}
        }
    }
}

/// Reading.
impl Snapshot {
    pub fn claim(&self, key: &str) -> Option<&Claim> {
        self.volumes.claims.get(key)
    }

    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.volumes.get(name)
    }

    pub fn storage_class(&self, name: &str) -> Option<&StorageClass> {
        self.volumes.classes.get(name)
    }

    /// Volumes that name the claim.
    pub fn volumes_for(&self, claim: &str) -> impl Iterator<Item = &Volume> {
        self.volumes.meant.get(claim).into_iter().flatten().filter_map(|name| self.volume(name))
    }

    /// Volumes of the class that no claim has, the smallest first.
    pub fn free_volumes(&self, class: &str) -> impl Iterator<Item = &Volume> {
        let names = self.volumes.free.get(class).into_iter().flatten();
        names.filter_map(|(_, name)| self.volume(name))
    }

    /// The uids of the placed pods that use the claim.
    pub fn users_of(&self, claim: &str) -> &[Arc<str>] {
        self.volumes.users.get(claim).map_or(&[], |users| users)
    }

    /// How many volumes of each driver the machine takes; `None`: nobody said it of any.
    pub fn volume_limits(&self, machine: Machine) -> Option<&BTreeMap<String, i64>> {
        if self.volumes.limits.is_empty() { None } else { self.volumes.limits.get(self.name(machine)) }
    }

    /// The pods with claims that are on the machine or have room there.
    pub fn mounting_on(&self, machine: Machine) -> impl Iterator<Item = &Placed> {
        self.volumes.on.get(&machine).into_iter().flatten()
    }

    /// The driver that attaches the claim's volume, and which volume it is; of one that is still to be made, the claim.
    pub fn attached(&self, claim: &str) -> Option<(&str, &str)> {
        let (key, claim) = self.volumes.claims.get_key_value(claim)?;
        if let Some(volume) = self.volume(&claim.volume) {
            return volume.csi.as_ref().map(|(driver, handle)| (driver.as_str(), handle.as_str()));
        }
        let class = self.storage_class(&claim.wants.class).filter(|class| class.makes_volumes())?;
        claim.volume.is_empty().then_some((class.provisioner.as_str(), &**key))
    }
}

/// Following the store. Each says whether a decision could be another one now.
impl Snapshot {
    pub fn claim_applied(&mut self, claim: &api::PersistentVolumeClaim) -> bool {
        let new = Claim::read(claim);
        let key: Arc<str> = claim.metadata.key().into();
        let old = self.volumes.claims.insert(key, new.clone());
        old.is_none_or(|old| Claim { revision: new.revision.clone(), ..old } != new)
    }

    pub fn claim_deleted(&mut self, key: &str) -> bool {
        self.volumes.claims.remove(key).is_some()
    }

    pub fn volume_applied(&mut self, volume: &api::PersistentVolume) -> bool {
        let new = Volume::read(volume);
        let old = self.volumes.volumes.insert(new.name.to_string(), new.clone());
        old.iter().for_each(|old| self.volumes.list(old, false));
        self.volumes.list(&new, true);
        old.is_none_or(|old| Volume { revision: new.revision.clone(), ..old } != new)
    }

    pub fn volume_deleted(&mut self, name: &str) {
        if let Some(old) = self.volumes.volumes.remove(name) {
            self.volumes.list(&old, false);
        }
    }

    pub fn storage_class_applied(&mut self, class: &api::StorageClass) -> bool {
        let new = StorageClass::read(class);
        let old = self.volumes.classes.insert(class.metadata.name.clone(), new.clone());
        old.is_none_or(|old| old != new)
    }

    pub fn storage_class_deleted(&mut self, name: &str) {
        self.volumes.classes.remove(name);
    }

    pub fn volume_limits_applied(&mut self, node: &api::CsiNode) -> bool {
        let drivers = node.spec.drivers.iter();
        let limits = drivers.filter_map(|driver| Some((driver.name.clone(), driver.allocatable.count?)));
        let (name, new): (_, BTreeMap<_, _>) = (&node.metadata.name, limits.collect());
        let old = match new.is_empty() {
            true => self.volumes.limits.remove(name),
            false => self.volumes.limits.insert(name.clone(), new.clone()),
        };
        old.unwrap_or_default() != new
    }

    pub fn volume_limits_deleted(&mut self, name: &str) -> bool {
        self.volumes.limits.remove(name).is_some()
    }

    pub fn claim_keys(&self) -> Vec<String> {
        self.volumes.claims.keys().map(|key| key.to_string()).collect()
    }

    pub fn volume_names(&self) -> Vec<String> {
        self.volumes.volumes.keys().cloned().collect()
    }

    pub fn storage_class_names(&self) -> Vec<String> {
        self.volumes.classes.keys().cloned().collect()
    }

    pub fn limited_machines(&self) -> Vec<String> {
        self.volumes.limits.keys().cloned().collect()
    }
}
