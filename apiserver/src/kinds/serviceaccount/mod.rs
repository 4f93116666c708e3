//! What a ServiceAccount means to the API: a name, and its row. Its tokens are made elsewhere.

use super::value::items;
use super::{Column, Strategy, columns};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::NAME, Column::text("Secrets", "How many secrets its pods may mount."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), items(object, "secrets").len().into(), columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::row;
    use serde_json::json;

    #[test]
    fn a_row_counts_secrets() {
        assert_eq!(row(&ServiceAccount, &json!({"secrets": [{"name": "a"}]})), json!(["x", 1, "5s"]));
    }
}
