//! Table columns and the cells that most kinds share. Decides how ages and counts read; never which columns a kind has.

use gantry_apimachinery::time::{Timestamp, human_duration};
use serde_json::Value;

/// One column of a `meta.k8s.io/v1 Table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `date`, `boolean`, `number`.
    pub kind: &'static str,
    /// `name` marks the column that `kubectl get -o name`-like printers use; otherwise empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always printed, 1 with `-o wide`.
    pub priority: u8,
}

impl Column {
    pub const NAME: Self = Self {
        name: "Name",
        kind: "string",
        format: "name",
        description: "Name must be unique within a namespace.",
        priority: 0,
    };
    pub const AGE: Self = Self {
        name: "Age",
        kind: "string",
        format: "",
        description: "Time since the object was created.",
        priority: 0,
    };

    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "string", format: "", description, priority: 0 }
    }
    pub const fn number(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "integer", format: "", description, priority: 0 }
    }
    pub const fn wide(self) -> Self {
        Self { name: self.name, kind: self.kind, format: self.format, description: self.description, priority: 1 }
    }
}

pub const NAME_AGE: &[Column] = &[Column::NAME, Column::AGE];

/// What kinds that Kubernetes has no columns for show beside the name.
pub const CREATED_AT: Column = Column { kind: "date", ..Column::text("Created At", "When the object was created.") };

pub fn created_at(object: &Value) -> Value {
    object["metadata"]["creationTimestamp"].clone()
}

pub fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// Time since creation as kubectl prints it; `<unknown>` without a creation time.
pub fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now)
}

/// Time since an RFC 3339 string.
pub fn since(time: &Value, now: Timestamp) -> Value {
    let parsed = time.as_str().and_then(|text| Timestamp::parse(text).ok());
    match parsed {
        Some(then) => Value::from(human_duration(now.secs() - then.secs())),
        None => Value::from("<unknown>"),
    }
}

/// `key=value,…` or `<none>`, as label and selector columns read.
pub fn labels(map: &Value) -> Value {
    let text = map
        .as_object()
        .map(|pairs| {
            pairs.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect::<Vec<_>>().join(",")
        })
        .unwrap_or_default();
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}
