//! How an AtMostOneClaim reads in `kubectl get`. Clients only read it; binds take it and agents' confirmations free it.

use super::value::{i64_at, str_at};
use super::{Column, Strategy, columns};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct AtMostOneClaim;

impl Strategy for AtMostOneClaim {
    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Node", "The machine whose pod holds it."),
            Column::number("Epoch", "How often it was taken."),
            Column::AGE,
            Column::text("Pod-UID", "The pod that holds it.").wide(),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let shown = |path: &str| match str_at(object, path) {
            "" => "<none>".into(),
            text => text.into(),
        };
        vec![
            columns::name(object),
            shown("holder.node"),
            i64_at(object, "epoch").unwrap_or(0).into(),
            columns::age(object, now),
            shown("holder.uid"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::row;
    use serde_json::json;

    #[test]
    fn a_free_claim_has_no_holder() {
        assert_eq!(row(&AtMostOneClaim, &json!({"epoch": 2})), json!(["x", "<none>", 2, "5s", "<none>"]));
        let held = json!({"holder": {"node": "n", "uid": "u"}, "epoch": 3});
        assert_eq!(row(&AtMostOneClaim, &held), json!(["x", "n", 3, "5s", "u"]));
    }
}
