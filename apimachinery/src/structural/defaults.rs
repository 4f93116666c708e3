//! Which defaults a schema may have: those that it keeps and allows itself. It decides when the schema is read, so that an
//! object is never made invalid by its defaults.

use super::node::Node;
use super::validate::NOWHERE;
use super::{hold, objects, prune, validate};
use crate::status::FieldErrors;

pub(super) fn check(node: &Node, path: &str, errors: &mut FieldErrors) {
    if let Some(default) = &node.default {
        let place = format!("{path}.default");
        let mut pruned = default.clone();
        if !prune::prune_part(&mut pruned, node).is_empty() {
            errors.invalid(place.as_str(), default.clone(), "must not have unknown fields");
        }
        let mut found = FieldErrors::new();
        objects::headers(default, node, "", &mut found);
        validate::validate(default, None, node, &mut found);
        placed(&found, &place, errors);
    }
    if let Some(items) = &node.items {
        check(items, &format!("{path}.items"), errors);
    }
    for (name, child) in &node.properties {
        check(child, &format!("{path}.properties[{name}]"), errors);
    }
}

/// Whether defaults keep to the rules inside of them.
pub(super) fn keep_rules(node: &Node, path: &str, errors: &mut FieldErrors) {
    if let Some(default) = node.default.as_ref().filter(|_| node.has_rules) {
        let mut found = FieldErrors::new();
        hold::check(default, None, node, &mut found);
        placed(&found, &format!("{path}.default"), errors);
    }
    if let Some(items) = &node.items {
        keep_rules(items, &format!("{path}.items"), errors);
    }
    for (name, child) in &node.properties {
        keep_rules(child, &format!("{path}.properties[{name}]"), errors);
    }
}

/// Errors about a value, as they stand where it is a default.
fn placed(found: &FieldErrors, place: &str, errors: &mut FieldErrors) {
    for error in found.iter() {
        let inside = match error.path.trim_start_matches('.') {
            "" | NOWHERE => place.to_owned(),
            inside if inside.starts_with('[') => format!("{place}{inside}"),
            inside => format!("{place}.{inside}"),
        };
        errors.push(error.kind, inside, error.body.clone());
    }
}
