//! What an answer must be, and what of it is not so. It compares; it never sends.

use crate::path;
use crate::pattern::{brief, differences};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An answer as far as it can be compared. `value` is the body when it is JSON or YAML, otherwise null.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    pub text: String,
    pub value: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// What a capture or an `at` names: `header:NAME`, `text`, or a path in the body.
    pub fn find(&self, path: &str) -> Result<Option<Value>, String> {
        if let Some(name) = path.strip_prefix("header:") {
            return Ok(self.header(name).map(Value::from));
        }
        if path == "text" {
            return Ok(Some(Value::from(self.text.clone())));
        }
        path::find(&self.value, path).map(|found| found.cloned())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// One status or several; without it any of the two hundreds.
    pub status: Option<Value>,
    /// Of a Status.
    pub reason: Option<Value>,
    pub message: Option<Value>,
    /// Each is among the Status' causes.
    pub causes: Vec<Value>,
    pub body: Option<Value>,
    pub at: BTreeMap<String, Value>,
    pub headers: BTreeMap<String, Value>,
    /// Each is among the warnings' texts; an empty list: there are none.
    pub warnings: Option<Vec<Value>>,
    /// The items' names in order.
    pub names: Option<Value>,
    /// A Table's columns in order, those that only wide output shows with a `+`.
    pub columns: Option<Value>,
    /// The cells of a Table's rows, by the names of their columns.
    pub rows: Option<Value>,
    pub text: Option<Value>,
}

impl Expect {
    /// A status, several, `STATUS REASON`, or the whole object.
    pub fn read(value: Option<&Value>) -> Result<Self, String> {
        match value {
            None => Ok(Self::default()),
            Some(Value::String(text)) => {
                let (status, reason) = text.split_once(' ').unwrap_or((text, ""));
                let status = status.parse::<u16>().map_err(|_| format!("not a status: {text:?}"))?;
                let reason = (!reason.is_empty()).then(|| json!(reason));
                Ok(Self { status: Some(json!(status)), reason, ..Self::default() })
            }
            Some(status @ (Value::Number(_) | Value::Array(_))) => {
                Ok(Self { status: Some(status.clone()), ..Self::default() })
            }
            Some(object) => serde_json::from_value(object.clone()).map_err(|error| format!("{error}: {object}")),
        }
    }

    /// What of the answer is not as expected, one line each.
    pub fn unmet(&self, reply: &Reply) -> Vec<String> {
        let mut found = Vec::new();
        let mut say = |what: &str, lines: Vec<String>| found.extend(lines.iter().map(|line| format!("{what}: {line}")));
        if !self.status_fits(reply.status) {
            let expected = self.status.as_ref().map_or_else(|| "success".to_owned(), Value::to_string);
            say("status", vec![format!("expected {expected}, got {}", reply.status)]);
        }
        let object = Some(&reply.value);
        if self.reason.is_some() || self.message.is_some() || !self.causes.is_empty() {
            let failure = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": reply.status});
            say("body", differences(&failure, object));
        }
        for (name, pattern) in [("reason", &self.reason), ("message", &self.message)] {
            if let Some(pattern) = pattern {
                say(name, differences(pattern, reply.value.get(name)));
            }
        }
        if !self.causes.is_empty() {
            say("causes", differences(&json!({"<contains>": self.causes}), reply.value.pointer("/details/causes")));
        }
        if let Some(pattern) = &self.body {
            say("body", differences(pattern, object));
        }
        for (path, pattern) in &self.at {
            match reply.find(path) {
                Ok(value) => say(path, differences(pattern, value.as_ref())),
                Err(error) => say("the catalogue", vec![error]),
            }
        }
        for (name, pattern) in &self.headers {
            say(&format!("header {name}"), differences(pattern, reply.header(name).map(Value::from).as_ref()));
        }
        if let Some(warnings) = &self.warnings {
            say("warnings", unmet_warnings(warnings, reply));
        }
        if let Some(names) = &self.names {
            say("names", differences(names, Some(&item_names(&reply.value))));
        }
        if let Some(columns) = &self.columns {
            say("columns", differences(columns, Some(&column_names(&reply.value))));
        }
        if let Some(rows) = &self.rows {
            say("rows", differences(rows, Some(&cells_by_column(&reply.value))));
        }
        if let Some(pattern) = &self.text {
            say("text", differences(pattern, Some(&Value::from(reply.text.clone()))));
        }
        found
    }

    pub fn status_fits(&self, status: u16) -> bool {
        match &self.status {
            None => (200..300).contains(&status),
            Some(Value::Array(any)) => any.contains(&json!(status)),
            Some(one) => *one == json!(status),
        }
    }
}

fn unmet_warnings(expected: &[Value], reply: &Reply) -> Vec<String> {
    let warnings: Vec<Value> =
        reply.headers.iter().filter(|(key, _)| key == "warning").map(|(_, v)| json!(v)).collect();
    let warnings = Value::from(warnings);
    if expected.is_empty() {
        return differences(&json!([]), Some(&warnings));
    }
    differences(&json!({"<contains>": expected}), Some(&warnings))
}

fn item_names(list: &Value) -> Value {
    let items = list["items"].as_array().or_else(|| list["rows"].as_array());
    let name = |item: &Value| {
        let metadata = item.get("metadata").or_else(|| item.pointer("/object/metadata"));
        metadata.map(|metadata| metadata["name"].clone()).unwrap_or_default()
    };
    items.into_iter().flatten().map(name).collect::<Vec<Value>>().into()
}

fn column_names(table: &Value) -> Value {
    let name = |column: &Value| {
        let wide = column["priority"].as_i64().is_some_and(|priority| priority > 0);
        format!("{}{}", column["name"].as_str().unwrap_or_default(), if wide { "+" } else { "" })
    };
    table["columnDefinitions"].as_array().into_iter().flatten().map(name).collect::<Vec<_>>().into()
}

/// Each row as an object from a column's name to its cell.
fn cells_by_column(table: &Value) -> Value {
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    let rows = table["rows"].as_array().into_iter().flatten();
    let row = |row: &Value| {
        let cells = row["cells"].as_array().cloned().unwrap_or_default();
        Value::Object(columns.iter().map(|column| (*column).to_owned()).zip(cells).collect())
    };
    rows.map(row).collect::<Vec<Value>>().into()
}

/// The answer for a person.
pub fn describe(reply: &Reply) -> String {
    let body = if reply.value.is_null() { brief(&Value::from(reply.text.clone())) } else { brief(&reply.value) };
    format!("{} {body}", reply.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expect: Value, reply: &Reply, unmet: &[&str]) {
        assert_eq!(Expect::read(Some(&expect)).unwrap().unmet(reply), unmet, "{expect}");
    }

    fn reply(status: u16, value: Value) -> Reply {
        let headers = vec![("warning".to_owned(), "299 - \"odd\"".to_owned()), ("etag".to_owned(), "7".to_owned())];
        Reply { status, headers, text: value.to_string(), value }
    }

    #[test]
    fn a_status_may_be_said_shortly() {
        let made = reply(201, json!({"a": 1}));
        check(json!(201), &made, &[]);
        check(json!([200, 201]), &made, &[]);
        check(json!(200), &made, &["status: expected 200, got 201"]);
        check(json!({}), &reply(404, json!({})), &["status: expected success, got 404"]);
        let failed =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "Conflict"});
        check(json!("409 Conflict"), &reply(409, failed.clone()), &[]);
        check(
            json!("409 AlreadyExists"),
            &reply(409, failed),
            &["reason: the whole: expected \"AlreadyExists\", got \"Conflict\""],
        );
        assert_eq!(
            Expect::read(Some(&json!("409 Conflict"))).unwrap().unmet(&reply(409, json!({}))).len(),
            5,
            "not a Status"
        );
        assert!(Expect::read(Some(&json!("soon"))).is_err());
        assert!(Expect::read(Some(&json!({"odd": 1}))).is_err());
    }

    #[test]
    fn every_part_of_an_answer_can_be_wrong() {
        let list = json!({"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "n": {"m": 1}});
        let list = reply(200, list);
        check(
            json!({"names": ["a", "b"], "at": {"n.m": 1, "header:etag": "7"}, "warnings": ["~odd"], "text": "~items"}),
            &list,
            &[],
        );
        check(
            json!({"names": ["b", "a"]}),
            &list,
            &["names: [0]: expected \"b\", got \"a\"", "names: [1]: expected \"a\", got \"b\""],
        );
        check(json!({"at": {"n.m": 2}}), &list, &["n.m: the whole: expected 2, got 1"]);
        check(json!({"body": {"n": "<absent>"}}), &list, &["body: n: should not be there, is {\"m\":1}"]);
        check(json!({"headers": {"etag": "8"}}), &list, &["header etag: the whole: expected \"8\", got \"7\""]);
        check(json!({"warnings": []}), &list, &["warnings: the whole: 1 elements, not 0: [\"299 - \\\"odd\\\"\"]"]);
        check(
            json!({"text": "~none"}),
            &list,
            &[&format!("text: the whole: expected \"~none\", got {}", json!(list.text))],
        );
        let causes = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "details": {"causes": [{"field": "a"}]}});
        check(json!({"status": 422, "causes": [{"field": "a"}]}), &reply(422, causes.clone()), &[]);
        check(
            json!({"status": 422, "causes": [{"field": "b"}]}),
            &reply(422, causes),
            &["causes: the whole: no element like {\"field\":\"b\"} in [{\"field\":\"a\"}]"],
        );
    }

    #[test]
    fn rows_are_read_by_their_columns() {
        let table = json!({"columnDefinitions": [{"name": "Name"}, {"name": "Data", "priority": 1}], "rows": [{"cells": ["a", 1]}]});
        check(json!({"rows": [{"Name": "a", "Data": 1}]}), &reply(200, table.clone()), &[]);
        check(json!({"columns": ["Name", "Data+"]}), &reply(200, table.clone()), &[]);
        check(
            json!({"columns": ["Name", "Data"]}),
            &reply(200, table.clone()),
            &["columns: [1]: expected \"Data\", got \"Data+\""],
        );
        check(
            json!({"rows": [{"Age": "<any>"}]}),
            &reply(200, table),
            &["rows: [0].Age: expected \"<any>\", got nothing"],
        );
    }
}
