//! What absent fields become. It decides by the schema alone; the defaults themselves were checked when it was read.

use super::node::{Additional, Node};
use serde_json::Value;

/// Fills in defaults, outermost first, so that a default may itself be completed by those inside it.
pub(super) fn default(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else { continue };
                if members.get(name).is_none_or(|v| child.refuses(v)) {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in members.iter_mut() {
                if let Some(child) = node.properties.get(name) {
                    default(value, child);
                } else if let Some(Additional::Of(child)) = &node.additional {
                    instead_of_null(value, child);
                    default(value, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items.as_deref() else { return };
            for item in items {
                instead_of_null(item, child);
                default(item, child);
            }
        }
        _ => {}
    }
}

fn instead_of_null(value: &mut Value, node: &Node) {
    if let Some(default) = node.default.as_ref().filter(|_| node.refuses(value)) {
        *value = default.clone();
    }
}

/// Removes the members that are null where the schema does not allow it; items of lists keep their places.
pub(super) fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => members.retain(|name, value| match node.member(name) {
            Some(Some(child)) if child.refuses(value) => false,
            Some(Some(child)) => {
                drop_nulls(value, child);
                true
            }
            _ => true,
        }),
        Value::Array(items) => {
            if let Some(child) = node.items.as_deref() {
                items.iter_mut().for_each(|item| drop_nulls(item, child));
            }
        }
        _ => {}
    }
}
