//! `metadata.managedFields`: one entry per manager, operation, version and subresource.
//!
//! It decides who owns what after a write, and how that is written down; it never changes any other field.

use super::at::At;
use super::diff::Diff;
use super::field_set::FieldSet;
use super::{Conflict, Writer};
use crate::time::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// As many Update entries as Kubernetes keeps; older ones become one.
const MAX_UPDATE_ENTRIES: usize = 10;
const ANCIENT: &str = "ancient-changes";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What tells entries apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriterId {
    operation: Operation,
    manager: String,
    /// Empty for Apply: an applier stays the same when it moves to another version.
    api_version: String,
    subresource: String,
}

#[derive(Clone, Debug)]
struct Entry {
    api_version: String,
    time: Option<Timestamp>,
    fields: FieldSet,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Managers {
    entries: BTreeMap<WriterId, Entry>,
    /// The version that new entries carry.
    api_version: String,
}

impl WriterId {
    pub fn new(writer: &Writer<'_>, operation: Operation, object: &Value) -> Self {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => text(object, "apiVersion"),
        };
        Self { operation, manager: writer.manager.to_owned(), api_version, subresource: writer.subresource.to_owned() }
    }

    fn show(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            shown.push_str(&format!(" using {}", self.api_version));
        }
        shown
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// The object without its managed fields and without these top-level fields.
pub(super) fn without(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    if let Value::Object(map) = &mut object {
        map.retain(|name, _| !fields.contains(&name.as_str()));
        if let Some(Value::Object(meta)) = map.get_mut("metadata") {
            meta.remove("managedFields");
        }
    }
    object
}

/// The owners before an apply: the live object's, whatever the applied object says.
pub(super) fn of_apply(live: Option<&Value>, applied: &Value) -> Managers {
    let entries = live.and_then(|l| parse(&l["metadata"]["managedFields"])).unwrap_or_default();
    Managers { entries, api_version: text(applied, "apiVersion") }
}

/// The owners before an update: what the request carries if it carries any, else the live object's.
pub(super) fn of_update(live: Option<&Value>, new: &Value, writer: &Writer<'_>) -> Managers {
    let api_version = text(new, "apiVersion");
    let sent = &new["metadata"]["managedFields"];
    let is_reset = sent.as_array().is_some_and(|l| matches!(l.as_slice(), [Value::Object(m)] if m.is_empty()));
    let from_live = || live.and_then(|l| parse(&l["metadata"]["managedFields"])).unwrap_or_default();
    let entries = match writer.subresource {
        "" if is_reset => BTreeMap::new(),
        "" => parse(sent).filter(|e| !e.is_empty()).unwrap_or_else(from_live),
        _ => from_live(),
    };
    Managers { entries, api_version }
}

/// Writes into a new object that `id` owns these fields and nobody owns others.
pub(super) fn write_creator(object: &mut Value, id: &WriterId, fields: Value, now: Timestamp) {
    if fields.as_object().is_none_or(Map::is_empty) {
        return;
    }
    let entry = encode_fields(id, &text(object, "apiVersion"), Some(now), fields);
    object["metadata"]["managedFields"] = Value::Array(vec![entry]);
}

/// `None` when any entry cannot be read.
fn parse(list: &Value) -> Option<BTreeMap<WriterId, Entry>> {
    let mut entries = BTreeMap::new();
    for item in list.as_array()? {
        let operation = match item["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text(item, "apiVersion");
        let id = WriterId {
            operation,
            manager: text(item, "manager"),
            api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
            subresource: text(item, "subresource"),
        };
        let time = item["time"].as_str().and_then(|t| Timestamp::parse(t).ok());
        let mut fields = FieldSet::from_json(item.get("fieldsV1")?).ok()?;
        fields.member = false;
        entries.insert(id, Entry { api_version, time, fields });
    }
    Some(entries)
}

impl Managers {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that is there was written by somebody: the first apply must not find it ownerless.
    pub fn adopt_all(&mut self, live: &Value, at: At<'_>) {
        let api_version = text(live, "apiVersion");
        let id = WriterId {
            operation: Operation::Update,
            manager: BEFORE_FIRST_APPLY.to_owned(),
            api_version: api_version.clone(),
            subresource: String::new(),
        };
        let fields = FieldSet::of(&without(live, &["status"]), at).without_identity();
        let time = live["metadata"]["creationTimestamp"].as_str().and_then(|t| Timestamp::parse(t).ok());
        self.entries.insert(id, Entry { api_version, time, fields });
    }

    pub fn fields(&self, id: &WriterId) -> Option<&FieldSet> {
        self.entries.get(id).map(|e| &e.fields)
    }

    fn others(&self, id: &WriterId) -> impl Iterator<Item = (&WriterId, &Entry)> {
        self.entries.iter().filter(move |(other, _)| *other != id)
    }

    pub fn union_without(&self, id: &WriterId) -> FieldSet {
        self.others(id).fold(FieldSet::default(), |all, (_, e)| all.union(&e.fields))
    }

    pub fn conflicts(&self, id: &WriterId, diff: &Diff) -> Vec<Conflict> {
        let conflicts = |(other, entry): (&WriterId, &Entry)| {
            let owner = other.show();
            let paths = entry.fields.intersection(&diff.changed).paths();
            paths.into_iter().map(move |path| Conflict { owner: owner.clone(), path })
        };
        let mut all: Vec<_> = self.others(id).flat_map(conflicts).collect();
        all.sort_by(|a, b| (&a.owner, &a.path).cmp(&(&b.owner, &b.path)));
        all
    }

    /// What changed or went is no longer the others'.
    pub fn take_from_others(&mut self, id: &WriterId, diff: &Diff) {
        let gone = diff.changed.clone().union(&diff.removed);
        if gone.is_empty() {
            return;
        }
        for (_, entry) in self.entries.iter_mut().filter(|(other, _)| *other != id) {
            entry.fields = entry.fields.difference(&gone);
        }
        self.entries.retain(|other, e| other == id || !e.fields.is_empty());
    }

    /// Sets what this writer owns; whether that changed. The entry's time moves to `touched`, or to `now` when the set
    /// changed. A writer that owns nothing has no entry.
    pub fn set(&mut self, id: &WriterId, fields: FieldSet, touched: Option<Timestamp>, now: Timestamp) -> bool {
        if fields.is_empty() {
            return self.entries.remove(id).is_some();
        }
        let api_version = self.api_version.clone();
        match self.entries.get_mut(id) {
            Some(entry) => {
                let changed = entry.fields != fields;
                if changed || touched.is_some() {
                    entry.time = Some(now);
                }
                entry.fields = fields;
                entry.api_version = api_version;
                changed
            }
            None => {
                self.entries.insert(id.clone(), Entry { api_version, time: Some(now), fields });
                true
            }
        }
    }

    /// Folds the oldest Update entries into one when there are too many.
    pub fn cap_updates(&mut self) {
        let is_plain_update = |id: &&WriterId| id.operation == Operation::Update && id.manager != ANCIENT;
        let mut updates: Vec<_> = self.entries.iter().filter(|(id, _)| is_plain_update(id)).collect();
        if updates.len() <= MAX_UPDATE_ENTRIES {
            return;
        }
        updates.sort_by_key(|(_, e)| e.time);
        let excess = updates.len() - MAX_UPDATE_ENTRIES + 1;
        let oldest: Vec<WriterId> = updates.into_iter().take(excess).map(|(id, _)| id.clone()).collect();
        for id in oldest {
            let Some(entry) = self.entries.remove(&id) else { continue };
            let ancient = WriterId { manager: ANCIENT.to_owned(), subresource: String::new(), ..id };
            match self.entries.get_mut(&ancient) {
                Some(e) => {
                    e.fields.add(&entry.fields);
                    e.time = e.time.max(entry.time);
                }
                None => {
                    self.entries.insert(ancient, entry);
                }
            }
        }
    }

    /// Writes `metadata.managedFields`, in Kubernetes' order: appliers first, then by time.
    pub fn write_to(&self, object: &mut Value) {
        let mut sorted: Vec<_> = self.entries.iter().collect();
        sorted.sort_by(|(a, x), (b, y)| (a.operation, x.time, a).cmp(&(b.operation, y.time, b)));
        let list: Vec<Value> = sorted.into_iter().map(|(id, entry)| encode(id, entry)).collect();
        let Value::Object(map) = object else { return };
        let meta = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(meta) = meta else { return };
        if list.is_empty() {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".to_owned(), Value::Array(list));
        }
    }
}

fn encode(id: &WriterId, entry: &Entry) -> Value {
    encode_fields(id, &entry.api_version, entry.time, entry.fields.to_json())
}

fn encode_fields(id: &WriterId, api_version: &str, time: Option<Timestamp>, fields: Value) -> Value {
    let mut item = json!({
        "manager": id.manager,
        "operation": if id.operation == Operation::Apply { "Apply" } else { "Update" },
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
    });
    item["fieldsV1"] = fields;
    if let Some(time) = time {
        item["time"] = Value::from(time.to_string());
    }
    if !id.subresource.is_empty() {
        item["subresource"] = Value::from(id.subresource.clone());
    }
    item
}
