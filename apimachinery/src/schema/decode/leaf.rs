//! Decides which scalars a leaf takes, how they are normalised, and what counts as saying nothing. It never sees more
//! than one value.

use crate::quantity::Quantity;
use crate::schema::{Field, Shape, Type};
use crate::time::Timestamp;
use base64::Engine;
use serde_json::{Map, Number, Value};

/// Why a scalar does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Type,
    Range,
    Format(String),
}

pub(super) fn number(shape: Shape, number: &Number) -> Result<Value, Wrong> {
    let fits = |low: i64, high: i64| match number.as_i64() {
        Some(value) if (low..=high).contains(&value) => Ok(Value::Number(number.clone())),
        _ => Err(Wrong::Range),
    };
    match shape {
        Shape::Any | Shape::Double => Ok(Value::Number(number.clone())),
        Shape::Int32 | Shape::IntOrString => fits(i32::MIN.into(), i32::MAX.into()),
        Shape::Int64 => fits(i64::MIN, i64::MAX),
        Shape::Quantity => quantity(&number.to_string()),
        _ => Err(Wrong::Type),
    }
}

pub(super) fn text(shape: Shape, text: String) -> Result<Value, Wrong> {
    match shape {
        Shape::String | Shape::Any | Shape::IntOrString => Ok(Value::String(text)),
        Shape::Bytes => match base64::engine::general_purpose::STANDARD.decode(text.replace(['\r', '\n'], "")) {
            Ok(_) => Ok(Value::String(text)),
            Err(error) => Err(Wrong::Format(format!("illegal base64 data: {error}"))),
        },
        Shape::Quantity => quantity(&text),
        Shape::Time => time(&text).map(|time| Value::String(time.to_string())),
        Shape::MicroTime => time(&text).map(|time| Value::String(time.to_micro_string())),
        _ => Err(Wrong::Type),
    }
}

/// Quantities are stored in Kubernetes' canonical form, so that `0.5` and `500m` are the same object.
fn quantity(text: &str) -> Result<Value, Wrong> {
    match text.parse::<Quantity>() {
        Ok(quantity) => Ok(Value::String(quantity.to_string())),
        Err(error) => Err(Wrong::Format(format!("unable to parse quantity {text:?}: {error}"))),
    }
}

fn time(text: &str) -> Result<Timestamp, Wrong> {
    text.parse().map_err(|_| {
        Wrong::Format(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": not an RFC 3339 time"))
    })
}

/// What Go's decoder leaves behind for a null inside a list or a map.
pub(super) fn zero(ty: Type<'_>) -> Value {
    match ty.shape() {
        Shape::String | Shape::Bytes => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::from(0),
        Shape::Quantity => Value::String("0".into()),
        Shape::List => Value::Array(vec![]),
        Shape::Object | Shape::Map | Shape::Raw | Shape::Fields => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// Whether Kubernetes' types would leave this value out when they write the object: an optional list or map without
/// entries, or an optional scalar whose zero means the same as its absence.
pub(super) fn is_omitted(field: &Field<'_>, value: &Value) -> bool {
    if field.keeps_zero() {
        return value.is_null();
    }
    match (field.ty().shape(), value) {
        (_, Value::Null) => field.ty().shape() != Shape::Any,
        (Shape::List, Value::Array(items)) => items.is_empty(),
        (Shape::Map, Value::Object(members)) => members.is_empty(),
        _ => false,
    }
}
