//! Sets of fields, as `fieldsV1` writes them: a tree whose steps are `f:name`, `k:{keys}`, `v:value` and `i:index`.
//!
//! It decides set algebra and spelling; it never looks at a schema beyond building the set of a value.

use super::at::At;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One step down into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Field(String),
    /// An item of a list map: its keys as compact JSON with sorted names.
    Key(String),
    /// An item of a set: its value as compact JSON.
    Value(String),
    Index(usize),
}

/// A set of fields: this one if `member`, and those below. No child is empty.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSet {
    pub(super) member: bool,
    pub(super) children: BTreeMap<Step, FieldSet>,
}

/// `fieldsV1` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a field set: {0}")]
pub struct FieldSetError(String);

/// The paths that identify an object rather than belong to anybody.
const IDENTITY: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "generateName"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "managedFields"],
];

impl Step {
    fn parse(text: &str) -> Result<Self, FieldSetError> {
        let bad = || FieldSetError(format!("{text:?} is not a path element"));
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        let canonical = |rest: &str| serde_json::from_str::<Value>(rest).map(|v| v.to_string()).map_err(|_| bad());
        match kind {
            "f" => Ok(Step::Field(rest.to_owned())),
            "k" => Ok(Step::Key(canonical(rest)?)),
            "v" => Ok(Step::Value(canonical(rest)?)),
            "i" => rest.parse().map(Step::Index).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }

    fn encode(&self) -> String {
        match self {
            Step::Field(name) => field(name),
            Step::Key(key) => format!("k:{key}"),
            Step::Value(value) => format!("v:{value}"),
            Step::Index(i) => format!("i:{i}"),
        }
    }

    /// As conflicts name it: `.spec`, `[name="web"]`, `[="a"]`.
    fn display(&self) -> String {
        match self {
            Step::Field(name) => format!(".{name}"),
            Step::Key(key) => {
                let keys: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let pairs: Vec<_> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", pairs.join(","))
            }
            Step::Value(value) => format!("[={value}]"),
            Step::Index(i) => format!("[{i}]"),
        }
    }
}

fn field(name: &str) -> String {
    let mut step = String::with_capacity(name.len() + 2);
    step.push_str("f:");
    step.push_str(name);
    step
}

/// The set of a value in writing. `listed`: it is a member, whatever is below it.
fn json_of(value: &Value, at: At<'_>, listed: bool) -> Value {
    let mut set = Map::new();
    if let Some(map) = at.as_map(value) {
        for (name, value) in map {
            let (below, owned) = at.make(name);
            set.insert(field(name), json_of(value, below, owned));
        }
    } else if let Some(list) = at.as_list(value) {
        for (i, item) in list.iter().enumerate() {
            set.insert(at.step(i, item).encode(), json_of(item, at.items(), true));
        }
    }
    if listed && !set.is_empty() {
        set.insert(".".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(set)
}

impl FieldSet {
    pub(super) fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    /// Every field that `value` sets.
    pub(super) fn of(value: &Value, at: At<'_>) -> Self {
        Self::with(value, at, |at, name| {
            let (below, named) = at.enter(name);
            (below, !named)
        })
    }

    /// The same for a value that an update makes: its maps and lists are owned too.
    pub(super) fn made(value: &Value, at: At<'_>) -> Self {
        Self::with(value, at, At::make)
    }

    /// `enter` goes into a member of a map or struct, and says whether it is owned beside what is in it.
    fn with<'a>(value: &Value, at: At<'a>, enter: fn(At<'a>, &str) -> (At<'a>, bool)) -> Self {
        let mut set = Self::default();
        if let Some(map) = at.as_map(value) {
            for (name, v) in map {
                let (below, is_member) = enter(at, name);
                let mut child = Self::with(v, below, enter);
                child.member |= is_member;
                set.children.insert(Step::Field(name.clone()), child);
            }
        } else if let Some(list) = at.as_list(value) {
            for (i, item) in list.iter().enumerate() {
                let mut child = Self::with(item, at.items(), enter);
                child.member = true;
                set.children.insert(at.step(i, item), child);
            }
        }
        set.member = set.children.is_empty();
        set
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub fn from_json(value: &Value) -> Result<Self, FieldSetError> {
        let map = value.as_object().ok_or_else(|| FieldSetError("not an object".to_owned()))?;
        let mut set = Self::default();
        for (text, below) in map {
            if text == "." {
                set.member = true;
                continue;
            }
            let mut child = Self::from_json(below)?;
            child.member |= child.children.is_empty();
            set.children.insert(Step::parse(text)?, child);
        }
        Ok(set)
    }

    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.children.iter().map(|(step, child)| (step.encode(), child.to_json())));
        Value::Object(map)
    }

    /// What the creator of an object owns of it: `made`, `without_identity` and `to_json` at once, and without these top-level fields.
    pub(super) fn json_of_new(object: &Value, at: At<'_>, ignored: &[&str]) -> Value {
        let mut owned = Map::new();
        for (name, value) in object.as_object().into_iter().flatten() {
            if ignored.contains(&name.as_str()) || IDENTITY.contains(&&[name.as_str()][..]) {
                continue;
            }
            let (below, listed) = at.make(name);
            let mut fields = json_of(value, below, listed);
            if name == "metadata"
                && let Some(fields) = fields.as_object_mut()
            {
                for path in IDENTITY.iter().filter(|path| path.len() == 2) {
                    fields.remove(&format!("f:{}", path[1]));
                }
                if fields.is_empty() {
                    continue;
                }
            }
            owned.insert(field(name), fields);
        }
        Value::Object(owned)
    }

    /// The members' paths, as messages show them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths(&mut String::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut String, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.clone());
        }
        for (step, child) in &self.children {
            let len = prefix.len();
            prefix.push_str(&step.display());
            child.collect_paths(prefix, paths);
            prefix.truncate(len);
        }
    }

    pub fn union(mut self, other: &FieldSet) -> Self {
        self.add(other);
        self
    }

    pub(super) fn add(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (step, child) in &other.children {
            match self.children.get_mut(step) {
                Some(mine) => mine.add(child),
                None => {
                    self.children.insert(step.clone(), child.clone());
                }
            }
        }
    }

    /// The members of this set that are not members of `other`.
    pub fn difference(&self, other: &FieldSet) -> Self {
        let below = |(step, child): (&Step, &FieldSet)| {
            let rest = match other.children.get(step) {
                Some(o) => child.difference(o),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (step.clone(), rest))
        };
        Self { member: self.member && !other.member, children: self.children.iter().filter_map(below).collect() }
    }

    /// The members of both sets.
    pub fn intersection(&self, other: &FieldSet) -> Self {
        let below = |(step, child): (&Step, &FieldSet)| {
            let both = child.intersection(other.children.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        };
        Self { member: self.member && other.member, children: self.children.iter().filter_map(below).collect() }
    }

    /// The same tree with every node a member.
    pub(super) fn all_members(mut self) -> Self {
        self.member = true;
        self.children = self.children.into_iter().map(|(s, c)| (s, c.all_members())).collect();
        self
    }

    /// Without the field at this path and everything below it.
    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let step = Step::Field((*first).to_owned());
        if rest.is_empty() {
            self.children.remove(&step);
        } else if let Some(child) = self.children.get_mut(&step) {
            child.remove(rest);
            if child.is_empty() {
                self.children.remove(&step);
            }
        }
    }

    /// Without what names and versions the object: nobody owns that.
    pub(super) fn without_identity(mut self) -> Self {
        for path in IDENTITY {
            self.remove(path);
        }
        self.member = false;
        self
    }
}
