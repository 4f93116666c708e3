//! Who owns whom, over all kinds. Decides which objects a change makes worth a look; never what becomes of them.

use std::collections::{BTreeMap, BTreeSet};

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::{ObjectMeta, OwnerReference, Uid};

/// The finalizer that holds an owner until its blocking dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that holds an owner until its dependents are let go.
pub const ORPHAN: &str = "orphan";

/// What the graph knows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub kind: &'static Kind,
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

impl Item {
    fn new(kind: &'static Kind, meta: &ObjectMeta) -> Self {
        Item {
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            owners: meta.owner_references.clone(),
            finalizers: meta.finalizers.clone(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }

    /// Being deleted, and waiting for its blocking dependents.
    pub fn is_waiting(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }

    /// Being deleted, and its dependents are to stay.
    pub fn is_orphaning(&self) -> bool {
        self.deleting && self.has(ORPHAN)
    }

    /// The part of the header that writes need.
    pub fn meta(&self) -> ObjectMeta {
        ObjectMeta {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            owner_references: self.owners.clone(),
            finalizers: self.finalizers.clone(),
            ..ObjectMeta::default()
        }
    }
}

/// All objects and, per owner, those that name it.
#[derive(Debug, Default)]
pub struct Graph {
    items: BTreeMap<Uid, Item>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    pub fn dependents(&self, uid: &str) -> Vec<&Item> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|d| self.items.get(d)).collect()
    }

    /// An object is there, or changed. Returns what is worth a look now.
    pub fn put(&mut self, kind: &'static Kind, meta: &ObjectMeta) -> Vec<Uid> {
        let item = Item::new(kind, meta);
        let uid = item.uid.clone();
        let old = self.items.insert(uid.clone(), item.clone());
        let lost: Vec<Uid> = match &old {
            Some(old) => {
                old.owners.iter().map(|o| o.uid.clone()).filter(|o| item.owners.iter().all(|n| n.uid != *o)).collect()
            }
            None => Vec::new(),
        };
        for owner in &lost {
            self.unlink(owner, &uid);
        }
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let mut look = Vec::new();
        if item.is_waiting() || item.is_orphaning() {
            look.push(uid.clone());
            if item.is_waiting() && !old.as_ref().is_some_and(Item::is_waiting) {
                look.extend(self.dependents(uid.as_str()).iter().map(|d| d.uid.clone()));
            }
        } else if item.owners.iter().any(|o| self.items.get(&o.uid).is_none_or(Item::is_waiting)) {
            look.push(uid);
        }
        // An owner that waits may have lost the one that it waited for.
        let mut owners = lost;
        if old.is_none_or(|old| old.owners != item.owners) {
            owners.extend(item.owners.iter().map(|o| o.uid.clone()));
        }
        look.extend(owners.into_iter().filter(|o| self.waits(o)));
        look
    }

    /// An object is gone. Returns what is worth a look now: what it owned, and owners that waited for it.
    pub fn remove(&mut self, uid: &Uid) -> Vec<Uid> {
        let Some(item) = self.items.remove(uid) else { return Vec::new() };
        for owner in &item.owners {
            self.unlink(&owner.uid, uid);
        }
        let mut look: Vec<Uid> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        look.extend(item.owners.into_iter().map(|o| o.uid).filter(|o| self.waits(o)));
        look
    }

    /// Of one kind these and no others exist.
    pub fn retain(&mut self, kind: &Kind, present: &BTreeSet<Uid>) -> Vec<Uid> {
        let gone = self.items.values().filter(|item| item.kind == kind && !present.contains(&item.uid));
        let gone: Vec<Uid> = gone.map(|item| item.uid.clone()).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// Everything that is not plainly settled; for the resync.
    pub fn unsettled(&self) -> Vec<Uid> {
        let unsettled = |item: &&Item| {
            item.is_waiting() || item.is_orphaning() || item.owners.iter().any(|o| !self.items.contains_key(&o.uid))
        };
        self.items.values().filter(unsettled).map(|item| item.uid.clone()).collect()
    }

    fn waits(&self, uid: &Uid) -> bool {
        self.items.get(uid).is_some_and(|item| item.is_waiting() || item.is_orphaning())
    }

    fn unlink(&mut self, owner: &Uid, dependent: &Uid) {
        if let Some(all) = self.dependents.get_mut(owner) {
            all.remove(dependent);
            if all.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
