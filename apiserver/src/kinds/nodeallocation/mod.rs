//! How a NodeAllocation reads in `kubectl get`. Clients only read it; the API server writes it beside what shrinks room.

use super::value::i64_at;
use super::{Column, Strategy, columns};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct NodeAllocation;

impl Strategy for NodeAllocation {
    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::number("Pods", "How many pods are bound to the machine."),
            Column::text("CPU", "What they request."),
            Column::text("Memory", "What they request."),
            Column::number("Writes", "How often room on the machine shrank."),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let requested = |name: &str| object["status"]["requested"].get(name).cloned().unwrap_or_else(|| "0".into());
        let count = |path: &str| i64_at(object, path).unwrap_or(0).into();
        vec![
            columns::name(object),
            count("status.pods"),
            requested("cpu"),
            requested("memory"),
            count("writes"),
            columns::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::row;
    use serde_json::json;

    #[test]
    fn a_row_shows_totals() {
        let object = json!({"status": {"pods": 3, "requested": {"cpu": "1500m"}}, "writes": 9});
        assert_eq!(row(&NodeAllocation, &object), json!(["x", 3, "1500m", "0", 9, "5s"]));
    }
}
