//! What the kinds of dynamic resource allocation have in common: names of drivers, selectors, configurations and tolerations.
//! Decides what is well formed; never which device anybody gets.

use super::matching::{self, Yields};
use super::persistentvolume::rules::driver_name;
use super::pod::validate::{if_set_one_of, required};
use super::value::{at, default, items, items_mut, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

pub const MAX_SELECTORS: usize = 32;
pub const MAX_CONFIGS: usize = 32;
const MAX_TOLERATIONS: usize = 16;
const MAX_EXPRESSION: usize = 10 * 1024;
const MAX_PARAMETERS: usize = 10 * 1024;
pub const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// The list in `object[field]`, with the path of each entry; one error when there are too many.
pub fn bounded<'a>(
    object: &'a Value,
    field: &str,
    path: &str,
    max: usize,
    errors: &mut FieldErrors,
) -> Vec<(String, &'a Value)> {
    let (all, path) = (items(object, field), format!("{path}.{field}"));
    if all.len() > max {
        errors.too_many(path.as_str(), all.len(), max);
    }
    all.iter().enumerate().map(|(position, one)| (format!("{path}[{position}]"), one)).collect()
}

pub fn driver(object: &Value, path: &str, errors: &mut FieldErrors) {
    if required(object, "driver", path, errors) {
        driver_name(str_at(object, "driver"), &format!("{path}.driver"), errors);
    }
}

/// Expressions that a device must satisfy.
pub fn selectors(object: &Value, path: &str, errors: &mut FieldErrors) {
    for (path, selector) in bounded(object, "selectors", path, MAX_SELECTORS, errors) {
        let Some(cel) = at(selector, "cel") else {
            errors.required(format!("{path}.cel"));
            continue;
        };
        let path = format!("{path}.cel.expression");
        match str_at(cel, "expression") {
            "" => errors.required(path),
            text if text.len() > MAX_EXPRESSION => errors.too_long(path, MAX_EXPRESSION),
            _ => {
                let path = path.trim_end_matches(".expression");
                matching::expression(cel, "expression", path, &["device"], Yields::BoolOrUnknown, errors);
            }
        }
    }
}

/// What is handed to a driver as it is.
pub fn opaque(config: &Value, path: &str, errors: &mut FieldErrors) {
    let Some(opaque) = at(config, "opaque") else { return errors.required(format!("{path}.opaque")) };
    let path = format!("{path}.opaque");
    driver(opaque, &path, errors);
    let path = format!("{path}.parameters");
    match at(opaque, "parameters") {
        None => errors.required(path),
        Some(parameters) if !parameters.is_object() => {
            errors.invalid(path, parameters.clone(), "parameters must be a valid JSON object");
        }
        Some(parameters) if parameters.to_string().len() > MAX_PARAMETERS => errors.too_long(path, MAX_PARAMETERS),
        Some(_) => {}
    }
}

pub fn toleration_defaults(object: &mut Value) {
    items_mut(object, "tolerations").iter_mut().for_each(|toleration| default(toleration, "operator", "Equal"));
}

pub fn tolerations(object: &Value, path: &str, errors: &mut FieldErrors) {
    for (path, toleration) in bounded(object, "tolerations", path, MAX_TOLERATIONS, errors) {
        let (key, operator) = (str_at(toleration, "key"), str_at(toleration, "operator"));
        if key.is_empty() {
            if operator != "Exists" {
                let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errors.invalid(format!("{path}.operator"), operator, why);
            }
        } else if let Err(why) = names::qualified_name(key) {
            errors.invalid(format!("{path}.key"), key, why);
        }
        match operator {
            "Exists" if !str_at(toleration, "value").is_empty() => {
                let why = "must be empty for operator `Exists`";
                errors.invalid(format!("{path}.value"), str_at(toleration, "value"), why);
            }
            "Exists" => {}
            "Equal" => {
                if let Err(why) = names::label_value(str_at(toleration, "value")) {
                    errors.invalid(format!("{path}.value"), str_at(toleration, "value"), why);
                }
            }
            "" => errors.required(format!("{path}.operator")),
            other => errors.not_supported(format!("{path}.operator"), other, &["Equal", "Exists"]),
        }
        if_set_one_of(toleration, "effect", &path, EFFECTS, errors);
    }
}

/// `example.com/name`, or a name alone where a domain may be left out: an attribute or a capacity.
pub fn qualified(text: &str, needs_domain: bool, path: &str, errors: &mut FieldErrors) {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    if text.is_empty() {
        return errors.required_because(path, "name required");
    }
    match domain {
        None if needs_domain => errors.invalid(path, text, "must include a domain"),
        Some("") => errors.required_because(path, "the domain must not be empty"),
        Some(domain) => {
            if let Err(why) = names::dns1123_subdomain(domain) {
                errors.invalid(path, domain, why);
            }
        }
        None => {}
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() {
        errors.required_because(path, "the name must not be empty");
    } else if name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(word) {
        errors.invalid(path, name, "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')");
    }
}
