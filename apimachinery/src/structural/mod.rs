//! The schemas of custom resources: what a `CustomResourceDefinition` says about its objects, and what follows from it.
//!
//! It decides which schemas are structural, which fields an object keeps, what absent fields become and which values are
//! valid. It never reads, stores or serves anything, and knows no kind.

mod checks;
mod node;
mod view;

mod defaults;
mod invariants;
mod rules;

mod default;
mod prune;

mod format;
mod go;
mod objects;
mod validate;

mod declare;
mod expressions;
mod field_path;
mod hold;

mod typed;

#[cfg(test)]
mod tests;

pub(crate) use declare::escape;
pub(crate) use format::{Format, cidr};
pub(crate) use go::float as go_float;

use crate::schema::Schema;
use crate::status::{FieldErrorKind, FieldErrors};
use node::Node;
use serde_json::Value;
use view::View;

/// The parsed schema of one version of a custom resource. Immutable; share it in an `Arc`.
#[derive(Debug)]
pub struct Structural {
    root: Node,
    has_defaults: bool,
}

impl Structural {
    /// Reads the `openAPIV3Schema` of a version. Adds one error for each rule of structural schemas that it violates, with
    /// field paths below `path`; `None` if there was any.
    pub fn parse(schema: &Value, path: &str, errors: &mut FieldErrors) -> Option<Self> {
        let before = errors.len();
        if crate::depth::depth(schema) > crate::depth::MAX_DEPTH {
            errors.forbidden(path, format!("must not nest more than {} levels", crate::depth::MAX_DEPTH));
            return None;
        }
        let mut found = FieldErrors::new();
        let mut root = Node::read(schema, path, &mut found);
        let unreadable =
            |kind| matches!(kind, FieldErrorKind::TypeInvalid | FieldErrorKind::TooLong | FieldErrorKind::TooMany);
        let view = View::of(schema).filter(|_| !found.iter().any(|error| unreadable(error.kind)));
        let Some(view) = view else {
            errors.extend(found);
            return None;
        };
        invariants::check(view, path, found, errors);
        if errors.len() == before {
            defaults::check(&root, path, errors);
        }
        rules::check(view, &root, path, errors);
        if errors.len() == before {
            expressions::compile(&mut root, view, path, errors);
        }
        if errors.len() == before && root.has_rules {
            defaults::keep_rules(&root, path, errors);
        }
        if errors.len() > before {
            return None;
        }
        let has_defaults = root.any(&|node| node.default.is_some());
        Some(Self { root, has_defaults })
    }

    /// Removes the fields that the schema does not name, and answers their paths, sorted, as they stand in problems such
    /// as `unknown field "spec.foo"`. `apiVersion`, `kind` and `metadata` of the root stay as they are.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, &self.root)
    }

    /// Fills in absent fields that have a default, then removes nulls that are neither allowed nor defaulted. Idempotent.
    pub fn default(&self, object: &mut Value) {
        default::default(object, &self.root);
        default::drop_nulls(object, &self.root);
    }

    /// Whether any field has a default.
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// Adds one error for each value that the schema does not allow. With the `old` object, what was invalid and has not
    /// changed is no error, and rules that compare with the old value are asked.
    pub fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
        let mut found = FieldErrors::new();
        let (kept, errors) = (errors, &mut found);
        validate::validate(new, old, &self.root, errors);
        objects::headers(new, &self.root, "", errors);
        objects::lists(new, &self.root, "", errors);
        hold::check(new, old, &self.root, errors);
        kept.extend(found);
    }

    /// The same structure as a table, for server-side apply.
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Schema {
        typed::schema(&self.root, group, version, kind)
    }
}
