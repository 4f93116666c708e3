//! Decides whether one device is well described: its attributes, its capacity, its taints and what it draws from its pool.

use super::entries;
use crate::kinds::devices::{self, bounded};
use crate::kinds::pod::scheduling::node_selector;
use crate::kinds::pod::validate::{name, one_of, required};
use crate::kinds::quantities;
use crate::kinds::value::{at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

/// Attributes and capacities of one device together.
const MAX_FACTS: usize = 32;
const MAX_TAINTS: usize = 16;
const MAX_TEXT: usize = 64;
const MAX_COUNTERS: usize = 8;
const VALUES: [&str; 4] = ["bool", "int", "string", "version"];

pub fn validate(device: &Value, places_itself: bool, path: &str, errors: &mut FieldErrors) {
    if required(device, "name", path, errors) {
        name(device, "name", names::dns1123_label, path, errors);
    }
    let facts = entries(device, "attributes").count() + entries(device, "capacity").count();
    if facts > MAX_FACTS {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_FACTS}");
        errors.invalid(path, facts, why);
    }
    for (key, value) in entries(device, "attributes") {
        attribute(&key, &value, &format!("{path}.attributes[{key}]"), errors);
    }
    for (key, value) in entries(device, "capacity") {
        let path = format!("{path}.capacity[{key}]");
        devices::qualified(&key, false, &path, errors);
        quantities::not_negative(&value["value"], &format!("{path}.value"), errors);
    }
    for (path, taint) in bounded(device, "taints", path, MAX_TAINTS, errors) {
        if let Err(why) = names::qualified_name(str_at(taint, "key")) {
            errors.invalid(format!("{path}.key"), str_at(taint, "key"), why);
        }
        name(taint, "value", names::label_value, &path, errors);
        one_of(taint, "effect", &path, devices::EFFECTS, errors);
    }
    for (path, draw) in bounded(device, "consumesCounters", path, MAX_COUNTERS, errors) {
        if required(draw, "counterSet", &path, errors) {
            name(draw, "counterSet", names::dns1123_label, &path, errors);
        }
        if entries(draw, "counters").next().is_none() {
            errors.required(format!("{path}.counters"));
        }
    }
    place(device, places_itself, path, errors);
}

fn attribute(key: &str, value: &Value, path: &str, errors: &mut FieldErrors) {
    devices::qualified(key, false, path, errors);
    let given: Vec<&str> = VALUES.into_iter().filter(|kind| at(value, kind).is_some()).collect();
    match given.as_slice() {
        [] => errors.required_because(path, "exactly one value must be specified"),
        ["string"] if str_at(value, "string").len() > MAX_TEXT => errors.too_long(format!("{path}.string"), MAX_TEXT),
        ["version"] if str_at(value, "version").len() > MAX_TEXT => errors.too_long(format!("{path}.version"), MAX_TEXT),
        ["version"] if !is_semantic(str_at(value, "version")) => {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(format!("{path}.version"), str_at(value, "version"), why);
        }
        [_] => {}
        _ => errors.invalid(path, value.clone(), "exactly one value must be specified"),
    }
}

/// `1.2.3-rc.1+build`.
fn is_semantic(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let before = |part: &str| word(part) && (number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(before))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn place(device: &Value, places_itself: bool, path: &str, errors: &mut FieldErrors) {
    let given = ["nodeName", "nodeSelector", "allNodes"].into_iter().filter(|place| at(device, place).is_some());
    let given: Vec<&str> = given.collect();
    let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in \
               the ResourceSlice spec";
    match given.as_slice() {
        [] if places_itself => errors.required_because(path, why),
        [_, _, ..] if places_itself => errors.invalid(path, device.clone(), why),
        places if !places_itself => {
            for place in places {
                let why = "must not be set when `perDeviceNodeSelection` is not true in the ResourceSlice spec";
                errors.forbidden(format!("{path}.{place}"), why);
            }
        }
        _ => {}
    }
    name(device, "nodeName", names::dns1123_subdomain, path, errors);
    if let Some(selector) = at(device, "nodeSelector") {
        node_selector(selector, &format!("{path}.nodeSelector"), errors);
    }
}

/// What the devices of a pool share.
pub fn counters(spec: &Value, errors: &mut FieldErrors) {
    let mut seen = vec![];
    for (path, set) in bounded(spec, "sharedCounters", "spec", MAX_COUNTERS, errors) {
        let own = str_at(set, "name");
        if required(set, "name", &path, errors) {
            name(set, "name", names::dns1123_label, &path, errors);
        }
        if seen.contains(&own) {
            errors.duplicate(format!("{path}.name"), own);
        }
        seen.push(own);
        if entries(set, "counters").next().is_none() {
            errors.required(format!("{path}.counters"));
        }
        for (key, counter) in entries(set, "counters") {
            let path = format!("{path}.counters[{key}]");
            if let Err(why) = names::dns1123_label(&key) {
                errors.invalid(path.as_str(), key, why);
            }
            quantities::not_negative(&counter["value"], &format!("{path}.value"), errors);
        }
    }
    if !seen.is_empty() && !items(spec, "devices").is_empty() {
        let why = "exactly one of `sharedCounters` or `devices` is required, but multiple fields are set";
        errors.invalid("spec", "{`sharedCounters`, `devices`}", why);
    }
}

#[cfg(test)]
mod tests {
    use super::is_semantic;

    #[test]
    fn versions_are_semantic() {
        let check = |text: &str, expect: bool| assert_eq!(is_semantic(text), expect, "{text}");
        ["1.2.3", "0.0.0", "1.2.3-rc.1+b.01", "1.0.0-0a"].iter().for_each(|text| check(text, true));
        ["1.2", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3"].iter().for_each(|text| check(text, false));
    }
}
