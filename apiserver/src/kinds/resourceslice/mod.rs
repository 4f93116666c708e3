//! What a ResourceSlice means to the API: the devices that a driver has on a machine or for several, where it says so once and for
//! all, and what `kubectl get` shows.

mod device;

use super::columns::{self, Column};
use super::devices::{self, bounded};
use super::pod::scheduling::node_selector;
use super::pod::validate::{name, required};
use super::persistentvolumeclaim::or_unset;
use super::value::{at, bool_at, i64_at, items, items_mut, str_at};
use super::{Ctx, Selectable, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Map, Value};

pub struct ResourceSlice;

const MAX_DEVICES: usize = 128;
const MAX_POOL_NAME: usize = 253;
const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Node", "The machine that has the devices."),
    Column::text("Driver", "Whose devices these are."),
    Column::text("Pool", "The pool that they belong to."),
    Column::AGE,
];

impl Strategy for ResourceSlice {
    fn prepare_create(&self, object: &mut Value, ctx: &Ctx) {
        date_taints(object, ctx.now);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, ctx: &Ctx) {
        date_taints(new, ctx.now);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        devices::driver(spec, "spec", errors);
        pool(&spec["pool"], errors);
        place(spec, errors);
        let mut seen = vec![];
        for (path, device) in bounded(spec, "devices", "spec", MAX_DEVICES, errors) {
            let name = str_at(device, "name");
            if seen.contains(&name) {
                errors.duplicate(format!("{path}.name"), name);
            }
            seen.push(name);
            device::validate(device, bool_at(spec, "perDeviceNodeSelection"), &path, errors);
        }
        device::counters(spec, errors);
        let Some(old) = old else { return };
        for field in ["driver", "pool.name", "nodeName"] {
            if at(spec, field) != at(&old["spec"], field) {
                errors.immutable(format!("spec.{field}"), at(spec, field).cloned().unwrap_or_default());
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            columns::name(object),
            or_unset(object, "spec.nodeName"),
            str_at(object, "spec.driver").into(),
            str_at(object, "spec.pool.name").into(),
            columns::age(object, now),
        ]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::path("spec.driver"), Selectable::path("spec.nodeName")];
        FIELDS
    }
}

/// A taint without a time was added now.
fn date_taints(slice: &mut Value, now: Timestamp) {
    for device in items_mut(&mut slice["spec"], "devices") {
        for taint in items_mut(device, "taints") {
            super::value::default(taint, "timeAdded", now.to_string());
        }
    }
}

fn pool(pool: &Value, errors: &mut FieldErrors) {
    let name = str_at(pool, "name");
    if required(pool, "name", "spec.pool", errors) {
        if name.len() > MAX_POOL_NAME {
            errors.too_long("spec.pool.name", MAX_POOL_NAME);
        }
        for part in name.split('/') {
            if let Err(why) = names::dns1123_subdomain(part) {
                errors.invalid("spec.pool.name", part, why);
            }
        }
    }
    let generation = i64_at(pool, "generation").unwrap_or(0);
    if generation < 0 {
        errors.invalid("spec.pool.generation", generation, "must be greater than or equal to zero");
    }
    let count = i64_at(pool, "resourceSliceCount").unwrap_or(0);
    if count < 1 {
        errors.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero");
    }
}

/// The devices are in exactly one place, or each says where it is.
fn place(spec: &Value, errors: &mut FieldErrors) {
    let given: Vec<&str> = PLACES.into_iter().filter(|place| at(spec, place).is_some_and(|v| *v != false && v != "")).collect();
    let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match given.as_slice() {
        [] => errors.required_because("spec", why),
        [_] => {}
        several => {
            let several = several.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ");
            errors.invalid("spec", format!("{{{several}}}"), format!("{why}, but multiple fields are set"));
        }
    }
    name(spec, "nodeName", names::dns1123_subdomain, "spec", errors);
    if let Some(selector) = at(spec, "nodeSelector") {
        node_selector(selector, "spec.nodeSelector", errors);
        if items(selector, "nodeSelectorTerms").len() > 1 {
            let terms = selector["nodeSelectorTerms"].clone();
            errors.invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term");
        }
    }
}

fn entries(object: &Value, field: &str) -> impl Iterator<Item = (String, Value)> {
    object[field].as_object().cloned().unwrap_or_else(Map::new).into_iter()
}

#[cfg(test)]
mod tests;
