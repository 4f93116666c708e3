//! Decides how a JSON object is written as a protobuf message, field numbers and inlined structs as the schema has them.

use super::wire::Writer;
use crate::schema::{Field, Schema, Shape, Type};
use crate::time::Timestamp;
use base64::Engine;
use serde_json::Value;
use std::collections::BTreeMap;

const PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

pub(super) fn message(object: &Value, ty: Type<'_>) -> Vec<u8> {
    let present = ty.fields().filter(|field| !field.proto_path().is_empty());
    let present: Vec<(Field<'_>, &Value)> =
        present.filter_map(|field| Some((field, object.get(field.name()).filter(|value| !value.is_null())?))).collect();
    level(&present, 0)
}

/// Writes the fields whose path goes through one struct; `depth` numbers of it are behind them.
fn level(fields: &[(Field<'_>, &Value)], depth: usize) -> Vec<u8> {
    let mut by_number: BTreeMap<u16, Vec<(Field<'_>, &Value)>> = BTreeMap::new();
    for (field, value) in fields {
        by_number.entry(field.proto_path()[depth]).or_default().push((*field, value));
    }
    let mut out = Writer::default();
    for (number, group) in by_number {
        match group.as_slice() {
            [(field, value)] if field.proto_path().len() == depth + 1 => {
                write_field(&mut out, number, value, field.ty())
            }
            inlined => out.bytes(number, &level(inlined, depth + 1)),
        }
    }
    out.into_bytes()
}

fn write_field(out: &mut Writer, number: u16, value: &Value, ty: Type<'_>) {
    if let Some(items) = ty.items() {
        value.as_array().into_iter().flatten().for_each(|item| write(out, number, item, items));
    } else if let Some(value_type) = ty.map_value() {
        for (key, value) in value.as_object().into_iter().flatten() {
            let mut entry = Writer::default();
            entry.bytes(1, key.as_bytes());
            write(&mut entry, 2, value, value_type);
            out.bytes(number, &entry.into_bytes());
        }
    } else {
        write(out, number, value, ty);
    }
}

fn write(out: &mut Writer, number: u16, value: &Value, ty: Type<'_>) {
    let text = value.as_str().unwrap_or_default();
    match ty.shape() {
        Shape::String => out.bytes(number, text.as_bytes()),
        Shape::Bool => out.varint(number, u64::from(value == true)),
        Shape::Int32 | Shape::Int64 => out.varint(number, value.as_i64().unwrap_or(0) as u64),
        Shape::Double => out.fixed64(number, value.as_f64().unwrap_or(0.0).to_bits()),
        Shape::Bytes => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text.replace(['\r', '\n'], ""));
            out.bytes(number, &bytes.unwrap_or_default());
        }
        Shape::Time | Shape::MicroTime => out.bytes(number, &time(text)),
        Shape::Quantity => {
            let mut quantity = Writer::default();
            quantity.bytes(1, text.as_bytes());
            out.bytes(number, &quantity.into_bytes());
        }
        Shape::IntOrString => out.bytes(number, &int_or_string(value)),
        Shape::Any | Shape::Raw | Shape::Fields => {
            let mut raw = Writer::default();
            raw.bytes(1, value.to_string().as_bytes());
            out.bytes(number, &raw.into_bytes());
        }
        Shape::SchemaOrList | Shape::SchemaOrBool | Shape::SchemaOrStrings => {
            out.bytes(number, &schema_or(value, ty.shape()));
        }
        Shape::Object => out.bytes(number, &message(value, ty)),
        Shape::List => {
            let mut wrapped = Writer::default();
            write_field(&mut wrapped, 1, value, ty);
            out.bytes(number, &wrapped.into_bytes());
        }
        Shape::Map => {}
    }
}

fn time(text: &str) -> Vec<u8> {
    let mut out = Writer::default();
    if let Ok(time) = Timestamp::parse(text) {
        out.varint(1, time.secs() as u64);
        out.varint(2, (time.micros().rem_euclid(1_000_000) * 1_000) as u64);
    }
    out.into_bytes()
}

fn int_or_string(value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.varint(1, u64::from(value.is_string()));
    out.varint(2, value.as_i64().unwrap_or(0) as u64);
    out.bytes(3, value.as_str().unwrap_or_default().as_bytes());
    out.into_bytes()
}

fn schema_or(value: &Value, shape: Shape) -> Vec<u8> {
    let props = Schema::builtin().named(PROPS).unwrap_or(Type::any());
    let (schema_number, other_number) = if shape == Shape::SchemaOrBool { (2, 1) } else { (1, 2) };
    let mut out = Writer::default();
    match value {
        Value::Object(_) => {
            if shape == Shape::SchemaOrBool {
                out.varint(other_number, 1);
            }
            out.bytes(schema_number, &message(value, props));
        }
        Value::Bool(allows) => out.varint(other_number, u64::from(*allows)),
        Value::Array(items) => items.iter().for_each(|item| match item.as_str() {
            Some(text) => out.bytes(other_number, text.as_bytes()),
            None => out.bytes(other_number, &message(item, props)),
        }),
        _ => {}
    }
    out.into_bytes()
}
