//! Decides what may be said of a claim's devices: whose they are, and that what was given stays given.

use crate::kinds::devices::{self, bounded};
use crate::kinds::pod::validate::required;
use crate::kinds::value::{at, items, str_at};
use crate::kinds::conditions;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;

pub fn validate(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let (now, before) = (&new["status"], &old["status"]);
    consumers(new, old, errors);
    if let (Some(given), Some(earlier)) = (at(now, "allocation"), at(before, "allocation"))
        && given != earlier
    {
        return errors.immutable("status.allocation", given.clone());
    }
    if let Some(given) = at(now, "allocation").filter(|_| at(before, "allocation").is_none()) {
        allocation(given, &new["spec"], errors);
    }
    let results = items(now, "allocation.devices.results");
    for (position, device) in items(now, "devices").iter().enumerate() {
        let path = format!("status.devices[{position}]");
        devices::driver(device, &path, errors);
        required(device, "pool", &path, errors);
        required(device, "device", &path, errors);
        let same = |result: &&Value| ["driver", "pool", "device", "shareID"].iter().all(|field| result[*field] == device[*field]);
        if !results.iter().any(|result| same(&result)) {
            let value = ["driver", "pool", "device"].map(|field| str_at(device, field)).join("/");
            errors.invalid(path.as_str(), value, "must be an allocated device in the claim");
        }
        for (index, condition) in items(device, "conditions").iter().enumerate() {
            conditions::validate(condition, &format!("{path}.conditions[{index}]"), errors);
        }
    }
}

fn consumers(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let all = bounded(&new["status"], "reservedFor", "status", MAX_CONSUMERS, errors);
    for (position, (path, consumer)) in all.iter().enumerate() {
        for field in ["resource", "name", "uid"] {
            required(consumer, field, path, errors);
        }
        if all[..position].iter().any(|(_, other)| other["uid"] == consumer["uid"]) {
            errors.duplicate(format!("{path}.uid"), str_at(consumer, "uid"));
        }
    }
    let before = items(old, "status.reservedFor");
    let added = all.iter().any(|(_, consumer)| !before.contains(consumer));
    if !all.is_empty() && at(new, "status.allocation").is_none() {
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set");
    } else if added && at(new, "metadata.deletionTimestamp").is_some() {
        errors.forbidden("status.reservedFor", "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
    }
}

fn allocation(given: &Value, spec: &Value, errors: &mut FieldErrors) {
    let path = "status.allocation.devices";
    let requests = items(spec, "devices.requests");
    let known = |name: &str| {
        let (main, sub) = name.split_once('/').map_or((name, None), |(main, sub)| (main, Some(sub)));
        requests.iter().filter(|request| request["name"] == main).any(|request| match sub {
            None => at(request, "exactly").is_some(),
            Some(sub) => items(request, "firstAvailable").iter().any(|one| one["name"] == sub),
        })
    };
    for (path, result) in bounded(&given["devices"], "results", path, MAX_RESULTS, errors) {
        let name = str_at(result, "request");
        if !known(name) {
            let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            errors.invalid(format!("{path}.request"), name, why);
        }
        devices::driver(result, &path, errors);
        required(result, "pool", &path, errors);
        required(result, "device", &path, errors);
    }
    for (path, config) in bounded(&given["devices"], "config", path, 2 * devices::MAX_CONFIGS, errors) {
        match str_at(config, "source") {
            "" => errors.required(format!("{path}.source")),
            "FromClaim" | "FromClass" => {}
            other => errors.not_supported(format!("{path}.source"), other, &["FromClaim", "FromClass"]),
        }
        devices::opaque(config, &path, errors);
    }
}
