//! What a CSIStorageCapacity means to the API: the room that one class has in one part of the cluster.

use super::columns::{self, Column};
use super::quantities;
use super::selectors;
use super::value::{at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if at(new, "nodeTopology").is_some() {
            selectors::label_selector(&new["nodeTopology"], "nodeTopology", errors);
        }
        let class = str_at(new, "storageClassName");
        if let Err(why) = names::dns1123_subdomain(class) {
            errors.invalid("storageClassName", class, why);
        }
        for field in ["capacity", "maximumVolumeSize"] {
            quantities::not_negative(&new[field], field, errors);
        }
        let Some(old) = old else { return };
        for field in ["nodeTopology", "storageClassName"] {
            if new[field] != old[field] {
                errors.immutable(field, new[field].clone());
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("StorageClassName", "The class that has the room."),
            Column::text("Capacity", "How much room there is."),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), str_at(object, "storageClassName").into(), str_at(object, "capacity").into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn room_is_not_negative_and_belongs_to_a_class() {
        let good = json!({"storageClassName": "fast", "capacity": "1Gi"});
        assert_eq!(errors(&CsiStorageCapacity, &good, None), "[]");
        let bad = json!({"storageClassName": "fast", "capacity": "-1", "nodeTopology": {"matchExpressions": [{"key": "a", "operator": "In"}]}});
        let expect = "[nodeTopology.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', \
             capacity: Invalid value: \"-1\": must be greater than or equal to 0]";
        assert_eq!(errors(&CsiStorageCapacity, &bad, None), expect);
        let moved = json!({"storageClassName": "slow"});
        let expect = "storageClassName: Invalid value: \"slow\": field is immutable";
        assert_eq!(errors(&CsiStorageCapacity, &moved, Some(&good)), expect);
        assert_eq!(row(&CsiStorageCapacity, &good), json!(["x", "fast", "1Gi"]));
    }
}
