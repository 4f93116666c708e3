//! Reading manifests: absent, null and of the wrong type are all "nothing there".

use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;

/// Amounts by resource: thousandths for cpu, whole units for everything else.
pub type Amounts = BTreeMap<String, i128>;

pub fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub fn namespace(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

/// `namespace/name`.
pub fn key(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// The machine that a pod is bound to, or nothing.
pub fn node_of(pod: &Value) -> &str {
    text(&pod["spec"]["nodeName"])
}

/// All containers have stopped for good: it takes nothing and nobody sees it any more.
pub fn ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]))
}

pub fn deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

pub fn labels(object: &Value) -> Labels {
    let map = object["metadata"]["labels"].as_object();
    map.into_iter().flatten().map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// Absent matches nothing, `{}` everything. What cannot be read matches nothing.
pub fn selects(selector: &Value, labels: &Labels) -> bool {
    Selector::from_json(Some(selector)).is_ok_and(|selector| selector.matches(labels))
}

pub fn is_empty_selector(selector: &Value) -> bool {
    Selector::from_json(Some(selector)).is_ok_and(|selector| selector.is_everything())
}

pub fn amounts(map: &Value) -> Amounts {
    let amount = |resource: &str, value: &Value| {
        let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let quantity = Quantity::parse(&written).unwrap_or_default();
        i128::from(if resource == "cpu" { quantity.milli() } else { quantity.value() })
    };
    map.as_object().into_iter().flatten().map(|(resource, value)| (resource.clone(), amount(resource, value))).collect()
}

pub fn amount(amounts: &Amounts, resource: &str) -> i128 {
    amounts.get(resource).copied().unwrap_or(0)
}

pub fn plus(a: &Amounts, b: &Amounts) -> Amounts {
    a.keys().chain(b.keys()).map(|resource| (resource.clone(), amount(a, resource) + amount(b, resource))).collect()
}

pub fn larger(a: &Amounts, b: &Amounts) -> Amounts {
    a.keys().chain(b.keys()).map(|resource| (resource.clone(), amount(a, resource).max(amount(b, resource)))).collect()
}
