//! Which definitions are accepted, in Kubernetes' words.

use crate::kinds::value::{bool_at, items, str_at};
use gantry_apimachinery::jsonpath::JsonPath;
use gantry_apimachinery::names::{dns1035_label, dns1123_subdomain};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::structural::Structural;
use serde_json::Value;
use std::collections::BTreeSet;

const APPROVED: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// Fields that may select objects of one version.
const MOST_SELECTABLE: usize = 8;

pub fn definition(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let (group, plural) = (str_at(new, "spec.group"), str_at(new, "spec.names.plural"));
    if str_at(new, "metadata.name") != format!("{plural}.{group}") {
        errors.invalid("metadata.name", str_at(new, "metadata.name"), "must be spec.names.plural+\".\"+spec.group");
    }
    check_group(new, group, errors);
    match str_at(new, "spec.scope") {
        "" => errors.required("spec.scope"),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported("spec.scope", other, &["Cluster", "Namespaced"]),
    }
    if bool_at(new, "spec.preserveUnknownFields") {
        errors.invalid("spec.preserveUnknownFields", true, "must be false in order to use defaults in the schema");
    }
    versions(new, old, errors);
    names(new, errors);
    conversion(new, errors);
    if let Some(old) = old {
        immutable(new, old, errors);
        let stored: Vec<&str> = items(new, "status.storedVersions").iter().filter_map(Value::as_str).collect();
        let known: Vec<&str> = items(new, "spec.versions").iter().map(|version| str_at(version, "name")).collect();
        for (at, version) in stored.iter().enumerate().filter(|(_, version)| !known.contains(version)) {
            let text = format!("missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions");
            errors.invalid(format!("status.storedVersions[{at}]"), *version, text);
        }
    }
}

/// What a status write may say of stored versions.
pub fn status(new: &Value, errors: &mut FieldErrors) {
    let storage = items(new, "spec.versions").iter().find(|version| bool_at(version, "storage"));
    let stored = items(new, "status.storedVersions");
    if let Some(name) = storage.map(|version| str_at(version, "name"))
        && !stored.iter().any(|version| version == name)
    {
        let text = format!("must have the storage version {name}");
        errors.invalid("status.storedVersions", Value::from(stored.to_vec()), text);
    }
}

fn check_group(new: &Value, group: &str, errors: &mut FieldErrors) {
    if group.is_empty() {
        return errors.required("spec.group");
    }
    if let Err(why) = dns1123_subdomain(group) {
        return errors.invalid("spec.group", group, why);
    }
    if !group.contains('.') {
        return errors.invalid("spec.group", group, "should be a domain with at least one dot");
    }
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|end| group == *end || group.ends_with(&format!(".{end}")));
    if protected {
        let path = format!("metadata.annotations[{APPROVED}]");
        match new["metadata"]["annotations"][APPROVED].as_str().unwrap_or("") {
            "" => errors.required_because(path, "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"),
            text if text.starts_with("unapproved") || text.starts_with("https://") => {}
            text => errors.invalid(path, text, "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"),
        }
    }
}

fn versions(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let versions = items(new, "spec.versions");
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = str_at(version, "name");
        if !seen.insert(name) {
            errors.invalid(format!("{path}.name"), name, "must be unique");
        }
        if let Err(why) = dns1035_label(name) {
            errors.invalid(format!("{path}.name"), name, why);
        }
        let before = old.and_then(|old| items(old, "spec.versions").iter().find(|before| before["name"] == version["name"]));
        one_version(version, before, &path, errors);
    }
    if versions.iter().filter(|version| bool_at(version, "storage")).count() != 1 {
        let text = "must have exactly one version marked as storage version";
        errors.invalid("spec.versions", Value::from(versions.to_vec()), text);
    }
}

fn one_version(version: &Value, before: Option<&Value>, path: &str, errors: &mut FieldErrors) {
    let schema_path = format!("{path}.schema.openAPIV3Schema");
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        errors.required_because(schema_path, "schemas are required");
    } else if before.is_none_or(|before| before["schema"] != version["schema"]) {
        Structural::parse(schema, &schema_path, errors);
    }
    if version["deprecationWarning"].is_string() && !bool_at(version, "deprecated") {
        let text = "can only be set for deprecated versions";
        errors.invalid(format!("{path}.deprecationWarning"), version["deprecationWarning"].clone(), text);
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        let mut check = |field: &str, roots: &[&str], required: bool| {
            let value = str_at(scale, field);
            let at = format!("{path}.subresources.scale.{field}");
            if value.is_empty() {
                if required {
                    errors.required(at);
                }
            } else if !roots.iter().any(|root| value.starts_with(root)) {
                errors.invalid(at, value, format!("should be a json path under {}", roots.join(" or ")));
            } else if value.contains(['[', ']', '*', '\'']) {
                errors.invalid(at, value, "should be a simple json path");
            }
        };
        check("specReplicasPath", &[".spec."], true);
        check("statusReplicasPath", &[".status."], true);
        check("labelSelectorPath", &[".spec.", ".status."], false);
    }
    columns(version, path, errors);
    let selectable = items(version, "selectableFields");
    if selectable.len() > MOST_SELECTABLE {
        errors.too_many(format!("{path}.selectableFields"), selectable.len(), MOST_SELECTABLE);
    }
    let mut seen = BTreeSet::new();
    for (at, field) in selectable.iter().enumerate() {
        let at = format!("{path}.selectableFields[{at}].jsonPath");
        let text = str_at(field, "jsonPath");
        if text.is_empty() {
            errors.required(at);
        } else if !text.starts_with('.') || text.starts_with(".metadata") || text.contains(['[', ']', '*', '\'']) {
            errors.invalid(at, text, "is an invalid path: must be a simple path to a field outside metadata");
        } else if !seen.insert(text) {
            errors.duplicate(at, text);
        } else if !is_scalar(schema, text) {
            let why = "is an invalid path: it must lead to a field of type string, boolean or integer";
            errors.invalid(at, text, why);
        }
    }
}

/// Whether a path leads to a field that can be compared as text.
fn is_scalar(schema: &Value, path: &str) -> bool {
    let leaf = path.split('.').skip(1).try_fold(schema, |schema, step| schema["properties"].get(step));
    leaf.is_some_and(|leaf| ["boolean", "integer", "string"].contains(&str_at(leaf, "type")))
}

fn columns(version: &Value, path: &str, errors: &mut FieldErrors) {
    for (at, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        if str_at(column, "name").is_empty() {
            errors.required(format!("{path}.name"));
        }
        match str_at(column, "type") {
            "" => errors.required_because(format!("{path}.type"), &format!("must be one of {}", COLUMN_TYPES.join(","))),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => errors.invalid(format!("{path}.type"), kind, format!("must be one of {}", COLUMN_TYPES.join(","))),
        }
        let format = str_at(column, "format");
        if !COLUMN_FORMATS.contains(&format) {
            errors.invalid(format!("{path}.format"), format, format!("must be one of {}", COLUMN_FORMATS[1..].join(",")));
        }
        match str_at(column, "jsonPath") {
            "" => errors.required(format!("{path}.jsonPath")),
            text if !text.starts_with('.') => {
                errors.invalid(format!("{path}.jsonPath"), text, "must be a simple json path starting with .");
            }
            text => {
                if let Err(why) = JsonPath::parse(text) {
                    errors.invalid(format!("{path}.jsonPath"), text, why.to_string());
                }
            }
        }
    }
}

fn names(new: &Value, errors: &mut FieldErrors) {
    let names = &new["spec"]["names"];
    let mut check = |field: &str, lower: bool| {
        let text = str_at(names, field);
        let at = format!("spec.names.{field}");
        if text.is_empty() {
            return errors.required(at);
        }
        let label = if lower { text.to_owned() } else { text.to_lowercase() };
        if let Err(why) = dns1035_label(&label) {
            errors.invalid(at, text, why);
        }
    };
    check("plural", true);
    check("singular", true);
    check("kind", false);
    check("listKind", false);
    for list in ["shortNames", "categories"] {
        for (at, name) in items(names, list).iter().enumerate() {
            if let Err(why) = dns1035_label(name.as_str().unwrap_or("")) {
                errors.invalid(format!("spec.names.{list}[{at}]"), name.clone(), why);
            }
        }
    }
    if str_at(names, "kind") == str_at(names, "listKind") {
        errors.invalid("spec.names.listKind", str_at(names, "listKind"), "kind and listKind may not be the same");
    }
}

fn conversion(new: &Value, errors: &mut FieldErrors) {
    let conversion = &new["spec"]["conversion"];
    let path = "spec.conversion";
    match str_at(conversion, "strategy") {
        "None" => {
            if conversion["webhook"].is_object() {
                errors.forbidden(format!("{path}.webhook"), "should not be set when strategy is not set to Webhook");
            }
        }
        "Webhook" => {
            let webhook = &conversion["webhook"];
            let config = &webhook["clientConfig"];
            let at = format!("{path}.webhookClientConfig");
            match (config["url"].is_string(), config["service"].is_object()) {
                (true, true) | (false, false) => {
                    errors.required_because(at, "exactly one of url or service is required");
                }
                (true, false) => {
                    if !str_at(config, "url").starts_with("https://") {
                        let text = "url must use https";
                        errors.invalid(format!("{at}.url"), str_at(config, "url"), text);
                    }
                }
                (false, true) => {
                    for field in ["name", "namespace"] {
                        if str_at(&config["service"], field).is_empty() {
                            errors.required(format!("{at}.service.{field}"));
                        }
                    }
                }
            }
            let versions = items(webhook, "conversionReviewVersions");
            if versions.is_empty() {
                errors.required(format!("{path}.conversionReviewVersions"));
            } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
                let text = "must include at least one of v1, v1beta1";
                errors.invalid(format!("{path}.conversionReviewVersions"), Value::from(versions.to_vec()), text);
            }
        }
        other => errors.not_supported(format!("{path}.strategy"), other, &["None", "Webhook"]),
    }
}

/// Names and scope are part of where objects lie.
fn immutable(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let established = items(old, "status.conditions")
        .iter()
        .any(|condition| str_at(condition, "type") == "Established" && str_at(condition, "status") == "True");
    let mut fields = vec!["spec.group", "spec.names.plural"];
    if established {
        fields.extend(["spec.scope", "spec.names.kind"]);
    }
    for field in fields {
        if str_at(new, field) != str_at(old, field) {
            errors.immutable(field, str_at(new, field));
        }
    }
}
