//! The columns of a custom resource: `additionalPrinterColumns`, or name and age. Decides how a value reads in its cell.

use crate::kinds::value::{items, str_at};
use gantry_apimachinery::jsonpath::{JsonPath, cell};
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Printer {
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    definition: Value,
    /// As the definition names it: `integer`, `date`, …
    kind: String,
    path: JsonPath,
}

impl Printer {
    /// Of one version of a definition that was validated before: a path that cannot be read is left out.
    pub fn read(version: &Value) -> Self {
        let column = |column: &Value| {
            let kind = str_at(column, "type").to_owned();
            Some(Column {
                definition: json!({
                    "name": str_at(column, "name"), "type": kind, "format": str_at(column, "format"),
                    "description": description(column), "priority": column["priority"].as_i64().unwrap_or(0),
                }),
                path: JsonPath::parse(str_at(column, "jsonPath")).ok()?,
                kind,
            })
        };
        let mut columns: Vec<Column> = items(version, "additionalPrinterColumns").iter().filter_map(column).collect();
        if columns.is_empty() {
            columns.extend(column(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": "CreationTimestamp is a timestamp representing the server time when this object was created.",
            })));
        }
        Self { columns }
    }

    pub fn column_definitions(&self) -> Value {
        let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
            "description": "Name must be unique within a namespace."});
        std::iter::once(name).chain(self.columns.iter().map(|column| column.definition.clone())).collect()
    }

    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        std::iter::once(name)
            .chain(self.columns.iter().map(|column| cell(column.path.first(object), &column.kind, now)))
            .collect()
    }
}

fn description(column: &Value) -> String {
    match str_at(column, "description") {
        "" => format!("Custom resource definition column (in JSONPath format): {}", str_at(column, "jsonPath")),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_their_types() {
        let column = |kind: &str, path: &str| json!({"name": "C", "type": kind, "jsonPath": path});
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:10Z"},
            "spec": {"n": 3, "text": "t", "on": true, "map": {"k": 1}},
        });
        let check = |kind: &str, path: &str, expect: Value| {
            let printer = Printer::read(&json!({"additionalPrinterColumns": [column(kind, path)]}));
            assert_eq!(printer.row(&object, Timestamp::from_secs(70)), [json!("a"), expect], "{kind} {path}");
        };
        check("integer", ".spec.n", json!(3));
        check("string", ".spec.n", json!("3"));
        check("string", ".spec.text", json!("t"));
        check("boolean", ".spec.on", json!(true));
        check("integer", ".spec.text", Value::Null);
        check("string", ".spec.map", json!("{\"k\":1}"));
        check("date", ".metadata.creationTimestamp", json!("60s"));
        check("string", ".spec.absent", Value::Null);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let printer = Printer::read(&json!({}));
        let names = printer.column_definitions();
        assert_eq!(
            (&names[0]["name"], &names[1]["name"], names.as_array().unwrap().len()),
            (&json!("Name"), &json!("Age"), 2)
        );
    }
}
