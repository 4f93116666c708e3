//! How an applied object lies over the live one, and how what its manager gave up disappears.
//!
//! It decides values and their order; owners are only compared, never changed.

use super::at::At;
use super::field_set::{FieldSet, Step};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Refuses an applied object whose associative lists do not tell their items apart. `path` is scratch, empty at the root.
pub(super) fn check_lists(value: &Value, at: At<'_>, path: &mut String) -> Result<(), String> {
    let len = path.len();
    if let Some(map) = at.as_map(value) {
        for (name, v) in map {
            let _ = write!(path, ".{name}");
            check_lists(v, at.member(name), path)?;
            path.truncate(len);
        }
    } else if let Some(list) = at.as_list(value) {
        let mut seen = BTreeSet::new();
        for (i, item) in list.iter().enumerate() {
            let Some(key) = at.key(item) else {
                let missing = at.key_names().into_iter().find(|k| item.get(k).is_none()).unwrap_or_default();
                return Err(format!(
                    "{path}: element {i}: associative list with keys has an element that omits key field {missing:?}"
                ));
            };
            if seen.contains(&key) {
                let shown = match &key {
                    Step::Key(k) | Step::Value(k) => k.clone(),
                    _ => i.to_string(),
                };
                return Err(format!("{path}: duplicate entries for key {shown}"));
            }
            seen.insert(key);
            let _ = write!(path, "[{i}]");
            check_lists(item, at.items(), path)?;
            path.truncate(len);
        }
    }
    Ok(())
}

/// `applied` over `live`: members and items of both, `applied`'s where both have a value that is owned as one.
pub(super) fn merge(live: &Value, applied: &Value, at: At<'_>) -> Value {
    if let (Some(l), Some(a)) = (at.as_map(live), at.as_map(applied)) {
        let mut merged: Map<String, Value> = l.clone();
        for (name, value) in a {
            let under = l.get(name);
            merged.insert(name.clone(), under.map_or_else(|| value.clone(), |u| merge(u, value, at.member(name))));
        }
        return Value::Object(merged);
    }
    match (at.as_list(live), at.as_list(applied)) {
        (Some(l), Some(a)) => Value::Array(merge_lists(l, a, at)),
        _ => applied.clone(),
    }
}

/// The applied items keep their order, the others keep theirs; an applied item that is new comes before the next shared one.
fn merge_lists(live: &[Value], applied: &[Value], at: At<'_>) -> Vec<Value> {
    let mut under = BTreeMap::new();
    for (i, item) in live.iter().enumerate() {
        under.entry(at.step(i, item)).or_insert(item);
    }
    let over: Vec<(Step, &Value)> = applied.iter().enumerate().map(|(i, v)| (at.step(i, v), v)).collect();
    let shared: BTreeSet<&Step> = over.iter().map(|(s, _)| s).collect();
    let merged = |(step, value): &(Step, &Value)| match under.get(step) {
        Some(u) => merge(u, value, at.items()),
        None => (*value).clone(),
    };
    let (mut out, mut next) = (Vec::with_capacity(live.len() + applied.len()), 0);
    for (i, item) in live.iter().enumerate() {
        let step = at.step(i, item);
        if !shared.contains(&step) {
            out.push(item.clone());
            continue;
        }
        // Up to and with this item, unless an earlier shared one already brought it.
        if let Some(ahead) = over[next..].iter().position(|(s, _)| *s == step) {
            out.extend(over[next..=next + ahead].iter().map(merged));
            next += ahead + 1;
        }
    }
    out.extend(over[next..].iter().map(merged));
    out
}

/// Removes from `value` what is in `given_up` and in nobody's `kept` set. Something of which nobody keeps any part goes
/// whole, with what the server defaulted inside it.
pub(super) fn prune(value: &mut Value, given_up: &FieldSet, kept: &FieldSet, at: At<'_>) {
    if given_up.children.is_empty() {
        return;
    }
    if at.as_map(value).is_some() {
        let Value::Object(map) = value else { return };
        for (step, lost) in &given_up.children {
            let Step::Field(name) = step else { continue };
            match kept.children.get(step) {
                None => {
                    map.remove(name);
                }
                Some(k) => {
                    if let Some(v) = map.get_mut(name) {
                        prune(v, lost, k, at.member(name));
                    }
                }
            }
        }
    } else if at.as_list(value).is_some() {
        let Value::Array(list) = value else { return };
        let mut index = 0;
        list.retain_mut(|item| {
            let step = at.step(index, item);
            index += 1;
            match (given_up.children.get(&step), kept.children.get(&step)) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(lost), Some(k)) => {
                    prune(item, lost, k, at.items());
                    true
                }
            }
        });
    }
}
