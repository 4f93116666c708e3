//! Tables and documents as kubectl prints them. Pure.

use comfy_table::{Table, presets};
use serde_json::Value;

/// A table without lines, in aligned columns.
pub fn columns(header: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().map(|name| name.to_uppercase()));
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    // Nothing stands before the first column or behind the last.
    let text = table.to_string();
    let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// A server's Table: its columns of priority 0, or all for `wide`.
pub fn table(table: &Value, wide: bool, with_namespace: bool) -> String {
    let definitions: Vec<&Value> = table["columnDefinitions"].as_array().into_iter().flatten().collect();
    let shown: Vec<usize> = definitions
        .iter()
        .enumerate()
        .filter(|(_, column)| wide || column["priority"].as_i64().unwrap_or(0) == 0)
        .map(|(at, _)| at)
        .collect();
    let mut header: Vec<String> = with_namespace.then(|| "NAMESPACE".to_owned()).into_iter().collect();
    header.extend(shown.iter().map(|at| definitions[*at]["name"].as_str().unwrap_or_default().to_owned()));
    let rows = table["rows"].as_array().into_iter().flatten().map(|row| {
        let namespace = with_namespace.then(|| cell(&row["object"]["metadata"]["namespace"]));
        namespace.into_iter().chain(shown.iter().map(|at| cell(&row["cells"][*at]))).collect()
    });
    columns(&header, &rows.collect::<Vec<_>>())
}

pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As people read it; the bookkeeping of who set which field is left out.
pub fn yaml(object: &Value) -> anyhow::Result<String> {
    let mut object = object.clone();
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    match items {
        Some(items) => items.iter_mut().for_each(tidy),
        None => tidy(&mut object),
    }
    Ok(serde_saphyr::to_string(&object)?)
}

pub fn tidy(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_have_the_servers_columns() {
        let answer = json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Age"}, {"name": "Node", "priority": 1}],
            "rows": [
                {"cells": ["web-1", "5m", "n1"], "object": {"metadata": {"namespace": "shop"}}},
                {"cells": ["db", 7, null], "object": {"metadata": {"namespace": "s"}}},
            ],
        });
        assert_eq!(table(&answer, false, false), "NAME   AGE\nweb-1  5m\ndb     7");
        assert_eq!(
            table(&answer, true, true),
            "NAMESPACE  NAME   AGE  NODE\nshop       web-1  5m   n1\ns          db     7    <none>"
        );
    }

    #[test]
    fn documents_say_nothing_of_who_set_what() {
        let object = json!({"kind": "A", "metadata": {"name": "a", "managedFields": [1]}});
        assert_eq!(yaml(&object).unwrap().trim(), "kind: A\nmetadata:\n  name: a");
        let list = json!({"items": [object]});
        assert!(!yaml(&list).unwrap().contains("managedFields"));
    }
}
