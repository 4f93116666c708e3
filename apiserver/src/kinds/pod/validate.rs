//! Decides whether a pod or a pod template is valid, in Kubernetes' words, one error per wrong field. The parts that fill a
//! page are beside it: containers, volumes, and what the scheduler reads.

use super::{containers, scheduling, unheeded, volumes};
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::{FieldErrorKind, FieldErrors};
use serde_json::Value;

pub(super) const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const MAX_NAMESERVERS: usize = 3;
/// Longer jobs than this are not jobs; the limit is an int32's.
const MAX_SECONDS: i64 = i32::MAX as i64;

/// A new pod.
pub fn pod(pod: &Value, errors: &mut FieldErrors) {
    if at(pod, "spec.ephemeralContainers").is_some() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if at(pod, "spec.schedulingGates").is_some() && !str_at(pod, "spec.nodeName").is_empty() {
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
    spec(&pod["spec"], "spec", errors);
    unheeded::refuse(&pod["spec"], errors);
}

/// The template of a workload: `path` is where it stands, such as `spec.template`.
pub fn template(template: &Value, path: &str, errors: &mut FieldErrors) {
    for (key, value) in template["metadata"]["labels"].as_object().into_iter().flatten() {
        label(&format!("{path}.labels"), key, value.as_str().unwrap_or_default(), errors);
    }
    for key in template["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            errors.invalid(format!("{path}.annotations"), key.as_str(), why);
        }
    }
    if at(template, "spec.ephemeralContainers").is_some() {
        errors
            .forbidden(format!("{path}.spec.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    spec(&template["spec"], &format!("{path}.spec"), errors);
}

/// What both have in common.
pub fn spec(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let volumes = volumes::validate(spec, path, errors);
    containers::validate(spec, path, &volumes, errors);
    one_of(spec, "restartPolicy", path, RESTART_POLICIES, errors);
    dns(spec, path, errors);
    at_least(spec, "terminationGracePeriodSeconds", 0, path, errors);
    between(spec, "activeDeadlineSeconds", 1, MAX_SECONDS, path, errors);
    scheduling::validate(spec, path, errors);
    name(spec, "serviceAccountName", names::dns1123_subdomain, path, errors);
    name(spec, "nodeName", names::dns1123_subdomain, path, errors);
    name(spec, "priorityClassName", names::dns1123_subdomain, path, errors);
    name(spec, "runtimeClassName", names::dns1123_subdomain, path, errors);
    name(spec, "hostname", names::dns1123_label, path, errors);
    name(spec, "subdomain", names::dns1123_label, path, errors);
    for (position, alias) in items(spec, "hostAliases").iter().enumerate() {
        let ip = str_at(alias, "ip");
        if ip.parse::<std::net::IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(format!("{path}.hostAliases[{position}].ip"), ip, why);
        }
        for (index, host) in items(alias, "hostnames").iter().filter_map(Value::as_str).enumerate() {
            if let Err(why) = names::dns1123_subdomain(host) {
                errors.invalid(format!("{path}.hostAliases[{position}].hostnames[{index}]"), host, why);
            }
        }
    }
    security_context(spec, path, errors);
}

fn security_context(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let (context, path) = (&spec["securityContext"], format!("{path}.securityContext"));
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        between(context, field, 0, MAX_SECONDS, &path, errors);
    }
    for (position, group) in items(context, "supplementalGroups").iter().enumerate() {
        if !group.as_i64().is_some_and(|group| (0..=MAX_SECONDS).contains(&group)) {
            let why = format!("must be between 0 and {MAX_SECONDS}, inclusive");
            errors.invalid(format!("{path}.supplementalGroups[{position}]"), group.clone(), why);
        }
    }
    let shares = spec["shareProcessNamespace"] == true;
    if shares && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(format!("{path}.shareProcessNamespace"), true, why);
    }
}

fn dns(spec: &Value, path: &str, errors: &mut FieldErrors) {
    one_of(spec, "dnsPolicy", path, DNS_POLICIES, errors);
    let servers = items(spec, "dnsConfig.nameservers");
    let servers_path = format!("{path}.dnsConfig.nameservers");
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        if at(spec, "dnsConfig").is_none() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.required_because(format!("{path}.dnsConfig"), why);
        } else {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required_because(servers_path.as_str(), why);
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        let why = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(servers_path.as_str(), spec["dnsConfig"]["nameservers"].clone(), why);
    }
    for (position, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        if server.parse::<std::net::IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(format!("{servers_path}[{position}]"), server, why);
        }
    }
}

// ---- rules that many fields share -------------------------------------------------------------------------------------

/// A text that must be one of a few; absent is for the defaults to avoid.
pub(in crate::kinds) fn one_of(object: &Value, field: &str, path: &str, allowed: &[&str], errors: &mut FieldErrors) {
    let value = str_at(object, field);
    let path = format!("{path}.{field}");
    if value.is_empty() {
        errors.required(path);
    } else if !allowed.contains(&value) {
        errors.not_supported(path, value, allowed);
    }
}

/// As `one_of`, where absent is fine.
pub(in crate::kinds) fn if_set_one_of(
    object: &Value,
    field: &str,
    path: &str,
    allowed: &[&str],
    errors: &mut FieldErrors,
) {
    if !str_at(object, field).is_empty() {
        one_of(object, field, path, allowed, errors);
    }
}

pub(in crate::kinds) fn at_least(object: &Value, field: &str, least: i64, path: &str, errors: &mut FieldErrors) {
    if let Some(value) = i64_at(object, field).filter(|value| *value < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.invalid(format!("{path}.{field}"), value, why);
    }
}

pub(in crate::kinds) fn between(
    object: &Value,
    field: &str,
    low: i64,
    high: i64,
    path: &str,
    errors: &mut FieldErrors,
) {
    if let Some(value) = i64_at(object, field).filter(|value| !(low..=high).contains(value)) {
        let why = format!("must be between {low} and {high}, inclusive");
        errors.invalid(format!("{path}.{field}"), value, why);
    }
}

/// A name of some syntax, where there is one.
pub(in crate::kinds) fn name(
    object: &Value,
    field: &str,
    syntax: fn(&str) -> Result<(), String>,
    path: &str,
    errors: &mut FieldErrors,
) {
    let value = str_at(object, field);
    if let Some(Err(why)) = (!value.is_empty()).then(|| syntax(value)) {
        errors.invalid(format!("{path}.{field}"), value, why);
    }
}

/// A text without which the object means nothing. Returns whether it is there.
pub(in crate::kinds) fn required(object: &Value, field: &str, path: &str, errors: &mut FieldErrors) -> bool {
    let missing = str_at(object, field).is_empty();
    if missing {
        errors.required(format!("{path}.{field}"));
    }
    !missing
}

pub(in crate::kinds) fn label(path: &str, key: &str, value: &str, errors: &mut FieldErrors) {
    if let Err(why) = names::qualified_name(key) {
        errors.invalid(path, key, why);
    }
    if let Err(why) = names::label_value(value) {
        errors.invalid(path, value, why);
    }
}

/// Exactly one of these members must be there. `what` names the choice in errors.
pub(super) fn exactly_one(object: &Value, fields: &[&str], path: &str, what: &str, errors: &mut FieldErrors) {
    let set: Vec<&&str> = fields.iter().filter(|field| at(object, field).is_some()).collect();
    match set.as_slice() {
        [] => errors.required_because(path, &format!("must specify a {what}")),
        [_] => {}
        [_, more @ ..] => {
            for field in more {
                errors.forbidden(format!("{path}.{field}"), format!("may not specify more than 1 {what}"));
            }
        }
    }
}

/// Names that must differ; the second of two is the wrong one.
pub(super) fn unique<'a>(seen: &mut Vec<&'a str>, name: &'a str, path: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return;
    }
    if seen.contains(&name) {
        errors.push(FieldErrorKind::Duplicate, path, format!("Duplicate value: {name:?}"));
    } else {
        seen.push(name);
    }
}
