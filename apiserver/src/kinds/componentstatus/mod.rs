//! What a ComponentStatus, which is made up when it is asked for, shows in `kubectl get`.

use super::Strategy;
use super::columns::{self, Column};
use super::value::{items, str_at};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Status", "Whether the component is healthy."),
            Column::text("Message", "What it says."),
            Column::text("Error", "Why it could not be asked."),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let healthy = items(object, "conditions").iter().find(|condition| condition["type"] == "Healthy");
        let Some(condition) = healthy else {
            return vec![columns::name(object), "Unknown".into(), "".into(), "".into()];
        };
        let status = if condition["status"] == "True" { "Healthy" } else { "Unhealthy" };
        let text = |field: &str| Value::from(str_at(condition, field));
        vec![columns::name(object), status.into(), text("message"), text("error")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::row;
    use serde_json::json;

    #[test]
    fn the_row_says_how_it_is() {
        let check = |conditions: Value, expect: Value| {
            assert_eq!(row(&ComponentStatus, &json!({"conditions": conditions})), expect);
        };
        check(json!([{"type": "Healthy", "status": "True", "message": "ok"}]), json!(["x", "Healthy", "ok", ""]));
        check(json!([{"type": "Healthy", "status": "False", "error": "e"}]), json!(["x", "Unhealthy", "", "e"]));
        check(json!([]), json!(["x", "Unknown", "", ""]));
    }
}
