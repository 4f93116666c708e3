//! Which pods are on which machine: those that the store says and those that are decided and not yet there.

use std::collections::HashMap;
use std::sync::Arc;

use super::Machine;
use super::matching::{HolderId, Member};
use super::room::Ask;
use crate::pod::{Band, Importance, PodInfo, Spec};

/// A placed pod's place in the slab.
pub type PodId = usize;

/// How sure a placement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The store says so.
    Stored,
    /// Decided here and not yet known to be in the store.
    Assumed,
    /// Room kept for a pod that waits for it; more important ones may take it.
    Held,
}

#[derive(Clone, Debug)]
pub struct Placed {
    pub machine: Machine,
    pub info: Arc<PodInfo>,
    pub band: Band,
    pub standing: Standing,
}

impl Placed {
    pub fn importance(&self) -> Importance {
        Importance::of(self.band, self.info.priority)
    }
}

/// What placed pods of one spec have in common.
#[derive(Debug)]
pub(super) struct SpecData {
    spec: Arc<Spec>,
    pub ask: Ask,
    pub carries: Vec<HolderId>,
    placed: u32,
}

fn spec_id(spec: &Arc<Spec>) -> usize {
    Arc::as_ptr(spec).addr()
}

#[derive(Debug, Default)]
pub(super) struct Pods {
    slots: Vec<Option<Placed>>,
    unused: Vec<PodId>,
    by_uid: HashMap<Arc<str>, PodId>,
    on_machine: Vec<Vec<u32>>,
    specs: HashMap<usize, SpecData>,
}

impl Pods {
    pub fn grow(&mut self) {
        self.on_machine.push(Vec::new());
    }

    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub fn find(&self, uid: &str) -> Option<PodId> {
        self.by_uid.get(uid).copied()
    }

    pub fn get(&self, id: PodId) -> Option<&Placed> {
        self.slots.get(id)?.as_ref()
    }

    pub fn get_mut(&mut self, id: PodId) -> Option<&mut Placed> {
        self.slots.get_mut(id)?.as_mut()
    }

    pub fn ids_on(&self, machine: Machine) -> impl Iterator<Item = PodId> + '_ {
        self.on_machine[machine].iter().map(|id| *id as usize)
    }

    pub fn is_vacant(&self, machine: Machine) -> bool {
        self.on_machine[machine].is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Placed> {
        self.slots.iter().flatten()
    }

    pub fn spec(&self, spec: &Arc<Spec>) -> Option<&SpecData> {
        self.specs.get(&spec_id(spec))
    }

    pub fn member<'a>(&'a self, placed: &'a Placed) -> Member<'a> {
        let carries = self.spec(&placed.info.spec).map_or(&[][..], |data| &data.carries);
        Member { tags: &placed.info.tags, deleting: placed.info.deleting, carries }
    }

    pub fn members(&self, machine: Machine) -> impl Iterator<Item = Member<'_>> {
        self.ids_on(machine).filter_map(|id| self.get(id)).map(|placed| self.member(placed))
    }

    /// One more pod of a spec; `data` is asked for when the spec is new.
    pub fn spec_comes(&mut self, spec: &Arc<Spec>, data: impl FnOnce() -> (Ask, Vec<HolderId>)) {
        let entry = self.specs.entry(spec_id(spec)).or_insert_with(|| {
            let (ask, carries) = data();
            SpecData { spec: spec.clone(), ask, carries, placed: 0 }
        });
        entry.placed += 1;
    }

    /// One pod less of a spec. After the last, the rules that it carried.
    pub fn spec_goes(&mut self, spec: &Arc<Spec>) -> Vec<HolderId> {
        let id = spec_id(spec);
        let Some(data) = self.specs.get_mut(&id) else { return Vec::new() };
        data.placed -= 1;
        if data.placed > 0 {
            return Vec::new();
        }
        debug_assert!(Arc::ptr_eq(&data.spec, spec));
        self.specs.remove(&id).map(|data| data.carries).unwrap_or_default()
    }

    pub fn insert(&mut self, placed: Placed) {
        let (uid, machine) = (placed.info.uid.clone(), placed.machine);
        let id = match self.unused.pop() {
            Some(id) => {
                self.slots[id] = Some(placed);
                id
            }
            None => {
                self.slots.push(Some(placed));
                self.slots.len() - 1
            }
        };
        self.by_uid.insert(uid, id);
        self.on_machine[machine].push(u32::try_from(id).expect("fewer than 2^32 pods are placed"));
    }

    pub fn remove(&mut self, id: PodId) -> Option<Placed> {
        let placed = self.slots.get_mut(id)?.take()?;
        self.by_uid.remove(&placed.info.uid);
        let on = &mut self.on_machine[placed.machine];
        if let Some(at) = on.iter().position(|other| *other as usize == id) {
            on.swap_remove(at);
        }
        self.unused.push(id);
        Some(placed)
    }
}
