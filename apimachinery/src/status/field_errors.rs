//! What is wrong with an object, field by field, in Kubernetes' words.
//!
//! It decides only the wording; the order is that of the validation that found the errors.

use super::Cause;
use serde_json::Value;
use std::fmt;

/// One error about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// `spec.containers[0].image`
    pub path: String,
    /// The error without its path.
    pub body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    NotFound,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of the cause in `Status.details`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// The list that a validation fills. Empty means valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
}

fn show(value: &Value) -> String {
    match value {
        Value::String(s) => format!("{s:?}"),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

fn with_detail(words: &str, detail: &str) -> String {
    if detail.is_empty() { words.to_owned() } else { format!("{words}: {detail}") }
}

/// `supported values: "A", "B"`
pub fn supported(values: &[&str]) -> String {
    let quoted: Vec<_> = values.iter().map(|v| format!("{v:?}")).collect();
    format!("supported values: {}", quoted.join(", "))
}

impl FieldErrors {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }
    pub fn len(&self) -> usize {
        self.errors.len()
    }
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.errors.iter()
    }
    pub fn extend(&mut self, other: FieldErrors) {
        self.errors.extend(other.errors);
    }
    pub fn push(&mut self, kind: FieldErrorKind, path: impl Into<String>, body: String) {
        self.errors.push(FieldError { kind, path: path.into(), body });
    }

    fn add(&mut self, kind: FieldErrorKind, path: impl Into<String>, detail: &str) {
        self.push(kind, path, with_detail(kind.words(), detail));
    }
    fn add_value(&mut self, kind: FieldErrorKind, path: impl Into<String>, value: &Value, detail: &str) {
        self.push(kind, path, with_detail(&format!("{}: {}", kind.words(), show(value)), detail));
    }

    pub fn required(&mut self, path: impl Into<String>) {
        self.add(FieldErrorKind::Required, path, "");
    }
    pub fn required_because(&mut self, path: impl Into<String>, detail: &str) {
        self.add(FieldErrorKind::Required, path, detail);
    }
    pub fn invalid(&mut self, path: impl Into<String>, value: impl Into<Value>, detail: impl AsRef<str>) {
        self.add_value(FieldErrorKind::Invalid, path, &value.into(), detail.as_ref());
    }
    /// A field that may not change after creation, in the words of most kinds.
    pub fn immutable(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.invalid(path, value, "field is immutable");
    }
    pub fn type_invalid(&mut self, path: impl Into<String>, value: impl Into<Value>, detail: impl AsRef<str>) {
        self.add_value(FieldErrorKind::TypeInvalid, path, &value.into(), detail.as_ref());
    }
    pub fn forbidden(&mut self, path: impl Into<String>, detail: impl AsRef<str>) {
        self.add(FieldErrorKind::Forbidden, path, detail.as_ref());
    }
    pub fn not_supported(&mut self, path: impl Into<String>, value: impl Into<Value>, values: &[&str]) {
        self.add_value(FieldErrorKind::NotSupported, path, &value.into(), &supported(values));
    }
    pub fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.add_value(FieldErrorKind::Duplicate, path, &value.into(), "");
    }
    pub fn not_found(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.add_value(FieldErrorKind::NotFound, path, &value.into(), "");
    }
    pub fn too_long(&mut self, path: impl Into<String>, max_bytes: usize) {
        let bytes = if max_bytes == 1 { "byte" } else { "bytes" };
        self.add(FieldErrorKind::TooLong, path, &format!("may not be more than {max_bytes} {bytes}"));
    }
    pub fn too_many(&mut self, path: impl Into<String>, count: usize, max: usize) {
        let kind = FieldErrorKind::TooMany;
        let items = if max == 1 { "item" } else { "items" };
        self.push(kind, path, format!("{}: {count}: must have at most {max} {items}", kind.words()));
    }

    pub fn causes(&self) -> Vec<Cause> {
        let cause = |e: &FieldError| Cause {
            reason: e.kind.reason().to_owned(),
            message: e.body.clone(),
            field: e.path.clone(),
        };
        self.errors.iter().map(cause).collect()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.body) } else { write!(f, "{}: {}", self.path, self.body) }
    }
}

/// One error as it is, several as `[a, b]`, each only once.
impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for e in &self.errors {
            let text = e.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [one] => f.write_str(one),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}
