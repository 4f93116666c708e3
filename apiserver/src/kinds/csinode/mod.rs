//! What a CSINode means to the API: the drivers of one machine, which stay as they registered.

use super::columns::{self, Column};
use super::persistentvolume::rules::driver_name;
use super::pod::validate::{at_least, required};
use super::value::{items, remove, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct CsiNode;

const MAX_NODE_ID: usize = 256;

impl Strategy for CsiNode {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let drivers = items(new, "spec.drivers");
        for (position, driver) in drivers.iter().enumerate() {
            let path = format!("spec.drivers[{position}]");
            let name = str_at(driver, "name");
            if required(driver, "name", &path, errors) {
                driver_name(name, &format!("{path}.name"), errors);
            }
            if drivers[..position].iter().any(|other| other["name"] == driver["name"]) {
                errors.duplicate(format!("{path}.name"), name);
            }
            if required(driver, "nodeID", &path, errors) && str_at(driver, "nodeID").len() > MAX_NODE_ID {
                let why = format!("must be {MAX_NODE_ID} characters or less");
                errors.invalid(format!("{path}.nodeID"), str_at(driver, "nodeID"), why);
            }
            at_least(&driver["allocatable"], "count", 0, &format!("{path}.allocatable"), errors);
            topology(driver, &format!("{path}.topologyKeys"), errors);
        }
        let Some(old) = old else { return };
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            remove(&mut driver, "allocatable");
            driver
        };
        for before in items(old, "spec.drivers") {
            let now = drivers.iter().find(|now| now["name"] == before["name"]);
            if let Some(now) = now.filter(|now| fixed(now) != fixed(before)) {
                errors.immutable("CSINodeDriver", now.clone());
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::number("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), items(object, "spec.drivers").len().into(), columns::age(object, now)]
    }
}

fn topology(driver: &Value, path: &str, errors: &mut FieldErrors) {
    let mut seen = vec![];
    for key in items(driver, "topologyKeys").iter().filter_map(Value::as_str) {
        if let Err(why) = names::qualified_name(key) {
            errors.invalid(path, key, why);
        }
        if seen.contains(&key) {
            errors.duplicate(path, key);
        }
        seen.push(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn drivers_are_well_formed_and_stay() {
        let node = |driver: Value| json!({"spec": {"drivers": [driver]}});
        let check = |driver: Value, expect: &str| assert_eq!(errors(&CsiNode, &node(driver), None), expect);
        let good = json!({"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}});
        check(good.clone(), "[]");
        check(json!({}), "[spec.drivers[0].name: Required value, spec.drivers[0].nodeID: Required value]");
        check(
            json!({"name": "d", "nodeID": "n", "allocatable": {"count": -1}, "topologyKeys": ["a", "a"]}),
            "[spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0, \
             spec.drivers[0].topologyKeys: Duplicate value: \"a\"]",
        );
        let mut other = good.clone();
        other["allocatable"]["count"] = json!(5);
        assert_eq!(errors(&CsiNode, &node(other.clone()), Some(&node(good.clone()))), "[]");
        other["nodeID"] = json!("m");
        assert!(errors(&CsiNode, &node(other), Some(&node(good.clone()))).ends_with("field is immutable"));
        assert_eq!(row(&CsiNode, &node(good)), json!(["x", 1, "5s"]));
    }
}
