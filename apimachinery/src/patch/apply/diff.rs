//! What changed between two versions of an object, as sets of fields.
//!
//! It decides which fields count as changed and which as removed; order in associative lists is no difference.

use super::at::At;
use super::field_set::{FieldSet, Step};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Diff {
    /// Added, or set to another value.
    pub changed: FieldSet,
    pub removed: FieldSet,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    pub fn ignore(&mut self, fields: &[&str]) {
        for field in fields.iter().chain(&["apiVersion", "kind"]) {
            for set in [&mut self.changed, &mut self.removed] {
                set.remove(&[field]);
            }
        }
        for set in [&mut self.changed, &mut self.removed] {
            *set = std::mem::take(set).without_identity();
        }
    }

    fn attach(&mut self, step: &Step, below: Diff) {
        let pairs = [(&mut self.changed, below.changed), (&mut self.removed, below.removed)];
        for (mine, child) in pairs {
            if !child.is_empty() {
                mine.children.insert(step.clone(), child);
            }
        }
    }
}

pub(super) fn between(old: &Value, new: &Value, at: At<'_>) -> Diff {
    let mut diff = Diff::default();
    if let (Some(o), Some(n)) = (at.as_map(old), at.as_map(new)) {
        for (name, value) in o {
            let step = || Step::Field(name.clone());
            match n.get(name) {
                Some(other) if other == value => {}
                Some(other) => diff.attach(&step(), between(value, other, at.member(name))),
                None => diff.attach(&step(), removed(value, at.member(name))),
            }
        }
        for (name, value) in n.iter().filter(|(name, _)| !o.contains_key(*name)) {
            let (below, owned) = at.make(name);
            diff.attach(&Step::Field(name.clone()), added(value, below, owned));
        }
    } else if let (Some(o), Some(n)) = (at.as_list(old), at.as_list(new)) {
        let (o, n) = (by_step(o, at), by_step(n, at));
        for (step, value) in &o {
            match n.get(step) {
                Some(other) => diff.attach(step, between(value, other, at.items())),
                None => diff.attach(step, removed(value, at.items())),
            }
        }
        for (step, value) in n.iter().filter(|(step, _)| !o.contains_key(*step)) {
            diff.attach(step, added(value, at.items(), true));
        }
    } else if old != new {
        diff.changed = FieldSet::leaf();
    }
    diff
}

fn added(value: &Value, at: At<'_>, as_member: bool) -> Diff {
    let mut set = FieldSet::made(value, at);
    set.member |= as_member;
    Diff { changed: set, ..Diff::default() }
}

fn removed(value: &Value, at: At<'_>) -> Diff {
    Diff { removed: FieldSet::of(value, at).all_members(), ..Diff::default() }
}

/// The items by what tells them apart; of items that nothing tells apart, the first.
fn by_step<'v>(list: &'v [Value], at: At<'_>) -> BTreeMap<Step, &'v Value> {
    let mut items = BTreeMap::new();
    for (i, item) in list.iter().enumerate() {
        items.entry(at.step(i, item)).or_insert(item);
    }
    items
}
