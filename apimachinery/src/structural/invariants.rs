//! What makes a schema structural: its fields and their types are said outside `allOf`, `anyOf`, `oneOf` and `not`, which
//! only restrict values. It decides the tree as a whole; single keywords are judged in `rules`.

use super::view::View;
use crate::status::{FieldError, FieldErrors};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Adds the violations, and those already `found`, sorted by their text as Kubernetes does.
pub(super) fn check(root: View<'_>, path: &str, mut found: FieldErrors, errors: &mut FieldErrors) {
    spine(root, Level::Root, path, &mut found);
    complete(root, Some(root), path, path, &mut found);
    let mut sorted: Vec<&FieldError> = found.iter().collect();
    sorted.sort_by_cached_key(|error| error.to_string());
    for error in sorted {
        errors.push(error.kind, error.path.clone(), error.body.clone());
    }
}

/// A schema outside junctors.
fn spine(view: View<'_>, level: Level, path: &str, errors: &mut FieldErrors) {
    let kind = view.text("type");
    if kind == "array" && view.get("items").is_none() {
        errors.required_because(format!("{path}.items"), "must be specified");
    }
    if let Some(items) = view.schema("items") {
        spine(items, Level::Item, &format!("{path}.items"), errors);
    }
    for (name, child) in view.members("properties") {
        spine(child, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(additional) = view.get("additionalProperties") {
        if level == Level::Root {
            errors.forbidden(format!("{path}.additionalProperties"), "must not be used at the root");
        }
        if let Some(child) = View::of(additional) {
            spine(child, Level::Field, &format!("{path}.additionalProperties"), errors);
        }
    }
    let int_or_string = view.flag("x-kubernetes-int-or-string");
    let preserve = view.flag("x-kubernetes-preserve-unknown-fields");
    if int_or_string {
        for keyword in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if view.flag(keyword) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(format!("{path}.{keyword}"), true, why);
            }
        }
    }
    junctors(view, is_int_or_string(view), has_int_or_string(view), path, errors);
    typed(view, level, path, errors);
    if kind.is_empty() && !int_or_string && !preserve && !view.flag("x-kubernetes-embedded-resource") {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.required_because(format!("{path}.type"), &format!("must not be empty {place}"));
    }
    header(view, level, path, errors);
}

fn typed(view: View<'_>, level: Level, path: &str, errors: &mut FieldErrors) {
    let kind = view.text("type");
    if view.flag("x-kubernetes-embedded-resource") {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "object" => {}
            "" => errors.required_because(format!("{path}.type"), why),
            other => errors.invalid(format!("{path}.type"), other, why),
        }
        if view.get("additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            errors.forbidden(format!("{path}.additionalProperties"), why);
        }
        if !view.flag("x-kubernetes-preserve-unknown-fields") && !view.has_properties() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            errors.required_because(format!("{path}.properties"), why);
        }
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(format!("{path}.type"), kind, "must be object at the root");
    }
}

/// What may be said of `apiVersion`, `kind` and `metadata`.
fn header(view: View<'_>, level: Level, path: &str, errors: &mut FieldErrors) {
    let resource = level == Level::Root || view.flag("x-kubernetes-embedded-resource");
    if !resource {
        return;
    }
    for name in ["kind", "apiVersion"] {
        if let Some(child) = view.property(name).filter(|child| child.text("type") != "string") {
            errors.invalid(format!("{path}.properties[{name}].type"), child.text("type"), "must be string");
        }
    }
    let Some(metadata) = view.property("metadata") else { return };
    let path = format!("{path}.properties[metadata]");
    if metadata.text("type") != "object" {
        errors.invalid(format!("{path}.type"), metadata.text("type"), "must be object");
    }
    let said = |keyword: &str, value: &Value| match (keyword, value) {
        ("type" | "default" | "example", _) | (_, Value::Null | Value::Bool(false)) => false,
        ("properties", Value::Object(members)) => !members.keys().all(|k| k == "name" || k == "generateName"),
        (_, Value::String(text)) => !text.is_empty(),
        (_, Value::Array(items)) => !items.is_empty(),
        _ => true,
    };
    if level == Level::Root && metadata.0.iter().any(|(keyword, value)| said(keyword, value)) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(path, why);
    }
}

fn is_int_or_string(view: View<'_>) -> bool {
    view.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn has_int_or_string(view: View<'_>) -> bool {
    view.schemas("allOf").next().is_some_and(is_int_or_string)
}

/// The restrictions of one schema. The two flags allow the pattern that stands for integers and strings.
fn junctors(view: View<'_>, skip_any_of: bool, skip_first_all_of: bool, path: &str, errors: &mut FieldErrors) {
    if !skip_any_of {
        for (index, child) in view.schemas("anyOf").enumerate() {
            nested(child, false, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, child) in view.schemas("allOf").enumerate() {
        nested(child, skip_first_all_of && index == 0, &format!("{path}.allOf[{index}]"), errors);
    }
    for (index, child) in view.schemas("oneOf").enumerate() {
        nested(child, false, &format!("{path}.oneOf[{index}]"), errors);
    }
    if let Some(child) = view.schema("not") {
        nested(child, false, &format!("{path}.not"), errors);
    }
}

/// A schema inside a junctor.
fn nested(view: View<'_>, skip_any_of: bool, path: &str, errors: &mut FieldErrors) {
    junctors(view, skip_any_of, false, path, errors);
    if let Some(items) = view.schema("items") {
        nested(items, false, &format!("{path}.items"), errors);
    }
    for (name, child) in view.members("properties") {
        nested(child, false, &format!("{path}.properties[{name}]"), errors);
    }
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("externalDocs", "undefined"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
    ];
    for (keyword, wanted) in FORBIDDEN.into_iter().chain([("x-kubernetes-validations", "empty")]) {
        let used = match view.get(keyword) {
            None | Some(Value::Bool(false)) => keyword == "additionalProperties" && view.get(keyword).is_some(),
            Some(Value::String(text)) => !text.is_empty() || wanted == "undefined",
            Some(Value::Array(items)) => !items.is_empty() || wanted == "undefined",
            Some(_) => true,
        };
        if used {
            errors.forbidden(format!("{path}.{keyword}"), format!("must be {wanted} to be structural"));
        }
    }
    if view.property("metadata").is_some() {
        let why = "must not be specified in a nested context";
        errors.forbidden(format!("{path}.properties[metadata]"), why);
    }
}

/// Whether what junctors speak of also stands outside of them: in `spine`, at `place`.
fn complete(view: View<'_>, spine: Option<View<'_>>, place: &str, path: &str, errors: &mut FieldErrors) {
    if let Some(child) = view.schema("not") {
        complete_nested(child, spine, place, &format!("{path}.not"), errors);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (index, child) in view.schemas(keyword).enumerate() {
            complete_nested(child, spine, place, &format!("{path}.{keyword}[{index}]"), errors);
        }
    }
}

fn complete_nested(view: View<'_>, spine: Option<View<'_>>, place: &str, path: &str, errors: &mut FieldErrors) {
    let Some(outside) = spine else {
        return errors.required_because(place, &format!("because it is defined in {path}"));
    };
    complete(view, spine, place, path, errors);
    if let Some(items) = view.schema("items") {
        complete_nested(items, outside.schema("items"), &format!("{place}.items"), &format!("{path}.items"), errors);
    }
    for (name, child) in view.members("properties") {
        let (place, path) = (format!("{place}.properties[{name}]"), format!("{path}.properties[{name}]"));
        complete_nested(child, outside.property(name), &place, &path, errors);
    }
}
