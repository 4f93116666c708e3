//! What both kinds of webhook configurations have in common: what an unsaid field means, and whom a webhook calls. Decides what is
//! well formed; nobody is called here.

use super::columns::{self, Column};
use super::matching;
use super::pod::validate::one_of;
use super::value::{at, default, i64_at, items, items_mut, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

/// The forms of reviews that the API server can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const URL_FORM: &str = "desired format: https://host[/path]";

pub const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::number("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
    Column::AGE,
];

pub fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![columns::name(object), items(object, "webhooks").len().into(), columns::age(object, now)]
}

pub fn defaults(object: &mut Value, own: impl Fn(&mut Value)) {
    for hook in items_mut(object, "webhooks") {
        default(hook, "failurePolicy", "Fail");
        default(hook, "timeoutSeconds", 10);
        matching::defaults(hook, &["rules"]);
        if let Some(service) = hook.pointer_mut("/clientConfig/service").filter(|service| service.is_object()) {
            default(service, "port", 443);
        }
        own(hook);
    }
}

pub fn validate(object: &Value, own: impl Fn(&Value, &str, &mut FieldErrors), errors: &mut FieldErrors) {
    let all = items(object, "webhooks");
    for (position, hook) in all.iter().enumerate() {
        let path = format!("webhooks[{position}]");
        one(hook, &path, errors);
        own(hook, &path, errors);
        if all[..position].iter().any(|other| other["name"] == hook["name"]) {
            errors.duplicate(format!("{path}.name"), str_at(hook, "name"));
        }
    }
}

fn one(hook: &Value, path: &str, errors: &mut FieldErrors) {
    versions(hook, &format!("{path}.admissionReviewVersions"), errors);
    qualified(str_at(hook, "name"), &format!("{path}.name"), errors);
    for (position, rule) in items(hook, "rules").iter().enumerate() {
        matching::rule(rule, &format!("{path}.rules[{position}]"), errors);
    }
    matching::failure_policy(hook, path, errors);
    match str_at(hook, "sideEffects") {
        "" => errors.required_because(format!("{path}.sideEffects"), "must specify one of None, NoneOnDryRun"),
        _ => one_of(hook, "sideEffects", path, &["None", "NoneOnDryRun"], errors),
    }
    if let Some(seconds) = i64_at(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(format!("{path}.timeoutSeconds"), seconds, why);
    }
    matching::selection(hook, path, errors);
    client(&hook["clientConfig"], &format!("{path}.clientConfig"), errors);
    matching::conditions(hook, path, &matching::OF_REQUESTS, errors);
}

fn versions(hook: &Value, path: &str, errors: &mut FieldErrors) {
    let all: Vec<&str> = items(hook, "admissionReviewVersions").iter().filter_map(Value::as_str).collect();
    if all.is_empty() {
        return errors.required_because(path, "must specify one of v1, v1beta1");
    }
    for (position, version) in all.iter().enumerate() {
        if all[..position].contains(version) {
            errors.invalid(format!("{path}[{position}]"), *version, "duplicate version");
        }
        if let Err(why) = names::dns1035_label(version) {
            errors.invalid(format!("{path}[{position}]"), *version, why);
        }
    }
    if !all.iter().any(|version| REVIEWS.contains(version)) {
        let why = "must include at least one of v1, v1beta1";
        errors.invalid(path, hook["admissionReviewVersions"].clone(), why);
    }
}

fn qualified(name: &str, path: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path);
    } else if let Err(why) = names::dns1123_subdomain(name) {
        errors.invalid(path, name, why);
    } else if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// Whom to call: a Service or an address, and only by TLS.
pub fn client(config: &Value, path: &str, errors: &mut FieldErrors) {
    match (at(config, "url").and_then(Value::as_str), at(config, "service")) {
        (Some(address), None) => url(address, &format!("{path}.url"), errors),
        (None, Some(to)) => service(to, &format!("{path}.service"), errors),
        _ => errors.required_because(path, "exactly one of url or service is required"),
    }
}

fn url(text: &str, path: &str, errors: &mut FieldErrors) {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    if scheme != "https" {
        errors.invalid(path, scheme, format!("'https' is the only allowed URL scheme; {URL_FORM}"));
    }
    let (before_fragment, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (before_query, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
    let authority = before_query.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.invalid(path, "", format!("host must be specified; {URL_FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, format!("user information is not permitted in the URL; {URL_FORM}"));
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, format!("fragments are not permitted in the URL; {URL_FORM}"));
    }
    if !query.is_empty() {
        errors.invalid(path, query, format!("query parameters are not permitted in the URL; {URL_FORM}"));
    }
}

fn service(service: &Value, path: &str, errors: &mut FieldErrors) {
    for field in ["name", "namespace"] {
        if str_at(service, field).is_empty() {
            errors.required_because(format!("{path}.{field}"), &format!("service {field} is required"));
        }
    }
    if let Some(port) = i64_at(service, "port").filter(|port| !(1..=65535).contains(port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(format!("{path}.port"), port, why);
    }
    let (to, path) = (str_at(service, "path"), format!("{path}.path"));
    if to.is_empty() || to == "/" {
        return;
    }
    let Some(steps) = to.strip_prefix('/') else { return errors.invalid(path, to, "must start with a '/'") };
    for (position, step) in steps.trim_end_matches('/').split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path.as_str(), to, format!("segment[{position}] may not be empty"));
        } else if let Err(why) = names::dns1123_subdomain(step) {
            errors.invalid(path.as_str(), to, format!("segment[{position}]: {why}"));
        }
    }
}
