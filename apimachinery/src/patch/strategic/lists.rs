//! How strategic merge patch merges, reorders and deletes from lists.
//!
//! It decides which elements correspond (by merge key, or by value) and in which order they stand: the patch's elements keep
//! the patch's order, the others keep theirs, and where both orders allow it the original's order decides.

use super::{Member, Object, PATCH, StrategicError, fresh, merge_map};
use serde_json::Value;

pub(super) fn merge(
    original: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
    m: Member<'_>,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let key = m.merge_key;
    if let Some(Value::Array(order)) = order {
        check_order(patch, order, key, path)?;
    }
    let server_order = original.clone();
    let merged = match key {
        None => union(original, patch),
        Some(key) => {
            let Some(merged) = merge_by_key(original, patch, m, key, path)? else {
                return Ok(patch.iter().filter(|p| p.get(PATCH).is_none()).filter_map(fresh).collect());
            };
            merged
        }
    };
    Ok(arrange(merged, patch, &server_order, key))
}

/// All values, each once, the original's first.
fn union(mut original: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    for value in patch {
        if !original.contains(value) {
            original.push(value.clone());
        }
    }
    original
}

/// `None` when the patch replaces the whole list.
fn merge_by_key(
    mut original: Vec<Value>,
    patch: &[Value],
    m: Member<'_>,
    key: &str,
    path: &str,
) -> Result<Option<Vec<Value>>, StrategicError> {
    let items = m.ty.and_then(|t| t.items());
    for element in patch {
        let directive = element.get(PATCH);
        if directive.is_some_and(|d| d == "replace") {
            return Ok(None);
        }
        let no_key = || StrategicError::NoMergeKey { path: path.to_owned(), key: key.to_owned() };
        let id = element.get(key).ok_or_else(no_key)?;
        let at = original.iter().position(|o| o.get(key) == Some(id));
        match directive {
            Some(d) if d == "delete" => original.retain(|o| o.get(key) != Some(id)),
            Some(d) if d != "merge" => {
                return Err(StrategicError::Directive { path: path.to_owned(), directive: d.to_string() });
            }
            _ => match (at, element) {
                (Some(at), Value::Object(new)) => {
                    let old = match original[at].take() {
                        Value::Object(old) => old,
                        _ => Object::new(),
                    };
                    original[at] = Value::Object(merge_map(old, new, items, path)?);
                }
                _ => original.extend(fresh(element)),
            },
        }
    }
    Ok(Some(original))
}

/// Every element of the patch that is not a deletion must stand in the order list, and in that order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>, path: &str) -> Result<(), StrategicError> {
    let mut rest = order.iter();
    for element in patch.iter().filter(|p| p.get(PATCH).is_none()) {
        if !rest.any(|o| same(o, element, key)) {
            return Err(StrategicError::Order { path: path.to_owned() });
        }
    }
    Ok(())
}

fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn index(list: &[Value], value: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|v| same(v, value, key))
}

/// Puts the elements that `wanted` names into its order, and weaves in the others, which keep the order of `server`: one of
/// these goes before the next wanted element only when it also did on the server.
fn arrange(merged: Vec<Value>, wanted: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged.into_iter().partition(|v| index(wanted, v, key).is_some());
    named.sort_by_key(|v| index(wanted, v, key));
    others.sort_by_key(|v| index(server, v, key));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    let mut arranged = Vec::new();
    loop {
        let other_first = match (named.peek(), others.peek()) {
            (None, None) => return arranged,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(n), Some(o)) => match (index(server, n, key), index(server, o, key)) {
                (Some(n), Some(o)) => o < n,
                _ => false,
            },
        };
        arranged.extend(if other_first { others.next() } else { named.next() });
    }
}

/// `$setElementOrder/KEY`: the list's order, for elements named by merge key or by value.
pub(super) fn reorder(
    original: &mut Object,
    name: &str,
    order: &Value,
    server: &[Value],
    merge_key: Option<&str>,
    path: &str,
) -> Result<(), StrategicError> {
    let Value::Array(order) = order else { return Err(StrategicError::NotAList { path: path.to_owned() }) };
    let Some(Value::Array(list)) = original.get_mut(name) else { return Ok(()) };
    let key = merge_key.filter(|k| order.iter().all(|o| o.get(k).is_some()));
    *list = arrange(std::mem::take(list), order, server, key);
    Ok(())
}

/// `$deleteFromPrimitiveList/KEY`: these values go.
pub(super) fn delete_from(original: &mut Object, name: &str, values: &Value, path: &str) -> Result<(), StrategicError> {
    let Value::Array(values) = values else { return Err(StrategicError::NotAList { path: path.to_owned() }) };
    if let Some(Value::Array(list)) = original.get_mut(name) {
        list.retain(|v| !values.contains(v));
    }
    Ok(())
}
