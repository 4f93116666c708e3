//! Decides what a protobuf message says in JSON. Go writes every field that is not a pointer, so an optional zero is left out
//! again unless the schema says that it matters.

use super::wire::{Reader, Wire, malformed};
use super::{MAX_DEPTH, ProtobufError};
use crate::schema::{Field, Schema, Shape, Type};
use crate::time::{MicroTime, Timestamp};
use base64::Engine;
use serde_json::{Map, Value, json};

const PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

pub(super) fn message(bytes: &[u8], ty: Type<'_>) -> Result<Value, ProtobufError> {
    value(Wire::Bytes(bytes), ty, ty.short_name(), 0)
}

fn structure(bytes: &[u8], ty: Type<'_>, depth: usize) -> Result<Value, ProtobufError> {
    let mut object = Map::new();
    fields(bytes, ty, &mut vec![], &mut object, depth)?;
    Ok(Value::Object(object))
}

/// `outer` are the numbers of the inlined structs that these bytes lie in.
fn fields(
    bytes: &[u8],
    ty: Type<'_>,
    outer: &mut Vec<u16>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Ok(number) = u16::try_from(number) else { continue };
        outer.push(number);
        match ty.fields().find(|field| field.proto_path().starts_with(outer)) {
            Some(field) if field.proto_path().len() == outer.len() => add(&field, wire, object, depth)?,
            Some(field) => fields(wire.bytes(field.name())?, ty, outer, object, depth + 1)?,
            None => {}
        }
        outer.pop();
    }
    Ok(())
}

fn add(field: &Field<'_>, wire: Wire<'_>, object: &mut Map<String, Value>, depth: usize) -> Result<(), ProtobufError> {
    let (name, ty) = (field.name(), field.ty());
    if let Some(items) = ty.items() {
        let list = object.entry(name).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            add_items(list, wire, items, name, depth)?;
        }
    } else if let Some(value_type) = ty.map_value() {
        let (key, value) = entry(wire.bytes(name)?, value_type, name, depth)?;
        let map = object.entry(name).or_insert_with(|| json!({}));
        if let Value::Object(map) = map {
            map.insert(key, value);
        }
    } else {
        let value = value(wire, ty, name, depth)?;
        let says_nothing = match &value {
            Value::Null => ty.shape() != Shape::Any,
            Value::String(text) => text.is_empty() && !field.keeps_zero(),
            Value::Bool(set) => !set && !field.keeps_zero() && ty.shape() == Shape::Bool,
            Value::Number(number) => {
                number.as_f64() == Some(0.0) && !field.keeps_zero() && ty.shape() != Shape::IntOrString
            }
            _ => false,
        };
        if !says_nothing {
            object.insert(name.to_string(), value);
        }
    }
    Ok(())
}

/// Lists of numbers may be packed into one value.
fn add_items(
    list: &mut Vec<Value>,
    wire: Wire<'_>,
    ty: Type<'_>,
    path: &str,
    depth: usize,
) -> Result<(), ProtobufError> {
    match (wire, ty.shape()) {
        (Wire::Bytes(packed), Shape::Int32 | Shape::Int64 | Shape::Bool) => {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                list.push(value(Wire::Varint(reader.varint()?), ty, path, depth)?);
            }
        }
        _ => list.push(value(wire, ty, path, depth)?),
    }
    Ok(())
}

fn entry(bytes: &[u8], ty: Type<'_>, path: &str, depth: usize) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut found) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => key = text(wire, path)?,
            2 => found = Some(value(wire, ty, path, depth)?),
            _ => {}
        }
    }
    let value = match (found, ty.shape()) {
        (Some(value), _) => value,
        (None, Shape::String) => Value::String(String::new()),
        (None, _) => value(Wire::Bytes(&[]), ty, path, depth)?,
    };
    Ok((key, value))
}

fn text(wire: Wire<'_>, path: &str) -> Result<String, ProtobufError> {
    String::from_utf8(wire.bytes(path)?.to_vec()).map_err(|_| malformed(path, "the text is not UTF-8"))
}

fn value(wire: Wire<'_>, ty: Type<'_>, path: &str, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match ty.shape() {
        Shape::String => Value::String(text(wire, path)?),
        Shape::Bool => Value::Bool(wire.varint(path)? != 0),
        Shape::Int32 => Value::from(wire.varint(path)? as i32),
        Shape::Int64 => Value::from(wire.varint(path)? as i64),
        Shape::Double => match wire {
            Wire::Fixed64(bits) => Value::from(f64::from_bits(bits)),
            Wire::Fixed32(bits) => Value::from(f64::from(f32::from_bits(bits))),
            _ => return Err(malformed(path, "a double was expected")),
        },
        Shape::Bytes => Value::String(base64::engine::general_purpose::STANDARD.encode(wire.bytes(path)?)),
        Shape::Time | Shape::MicroTime => time(wire.bytes(path)?, ty.shape(), path)?,
        Shape::Quantity => {
            Value::String(first(wire.bytes(path)?, 1)?.map_or(Ok("0".to_string()), |wire| text(wire, path))?)
        }
        Shape::IntOrString => int_or_string(wire.bytes(path)?, path)?,
        Shape::Any | Shape::Raw | Shape::Fields => embedded(wire.bytes(path)?, path)?,
        Shape::SchemaOrList | Shape::SchemaOrBool | Shape::SchemaOrStrings => {
            schema_or(wire.bytes(path)?, ty.shape(), path, depth)?
        }
        Shape::Object => structure(wire.bytes(path)?, ty, depth + 1)?,
        Shape::List => wrapped_list(wire.bytes(path)?, ty, path, depth)?,
        Shape::Map => return Err(malformed(path, "a map cannot stand here")),
    })
}

/// A list as a map's value is a message that holds only the items.
fn wrapped_list(bytes: &[u8], ty: Type<'_>, path: &str, depth: usize) -> Result<Value, ProtobufError> {
    let mut list = vec![];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if let (1, Some(items)) = (number, ty.items()) {
            add_items(&mut list, wire, items, path, depth)?;
        }
    }
    Ok(Value::Array(list))
}

/// The last value of one field number.
fn first(bytes: &[u8], wanted: u64) -> Result<Option<Wire<'_>>, ProtobufError> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        if number == wanted {
            found = Some(wire);
        }
    }
    Ok(found)
}

/// Go's zero time is an empty message: no time at all.
fn time(bytes: &[u8], shape: Shape, path: &str) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let number = |wanted| first(bytes, wanted)?.map_or(Ok(0), |wire| wire.varint(path));
    let (seconds, nanos) = (number(1)? as i64, number(2)? as i64);
    let micros = seconds.checked_mul(1_000_000).and_then(|micros| micros.checked_add(nanos / 1_000));
    let time = Timestamp::from_micros(micros.ok_or_else(|| malformed(path, "the time is out of range"))?);
    Ok(Value::String(if shape == Shape::Time { time.to_string() } else { MicroTime(time).to_string() }))
}

fn int_or_string(bytes: &[u8], path: &str) -> Result<Value, ProtobufError> {
    let is_text = first(bytes, 1)?.map_or(Ok(0), |wire| wire.varint(path))? == 1;
    if is_text {
        let text = first(bytes, 3)?.map_or(Ok(String::new()), |wire| text(wire, path))?;
        return Ok(Value::String(text));
    }
    Ok(Value::from(first(bytes, 2)?.map_or(Ok(0), |wire| wire.varint(path))? as i32))
}

/// JSON carried as bytes in field 1.
fn embedded(bytes: &[u8], path: &str) -> Result<Value, ProtobufError> {
    match first(bytes, 1)? {
        None => Ok(Value::Null),
        Some(wire) => match wire.bytes(path)? {
            [] => Ok(Value::Null),
            json => serde_json::from_slice(json).map_err(|error| malformed(path, error.to_string())),
        },
    }
}

fn schema_or(bytes: &[u8], shape: Shape, path: &str, depth: usize) -> Result<Value, ProtobufError> {
    let props = Schema::builtin().named(PROPS).unwrap_or(Type::any());
    let (schema_number, other_number) = if shape == Shape::SchemaOrBool { (2, 1) } else { (1, 2) };
    if let Some(wire) = first(bytes, schema_number)? {
        return structure(wire.bytes(path)?, props, depth + 1);
    }
    let mut list = vec![];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match shape {
            _ if number != other_number => {}
            Shape::SchemaOrBool => return Ok(Value::Bool(wire.varint(path)? != 0)),
            Shape::SchemaOrList => list.push(structure(wire.bytes(path)?, props, depth + 1)?),
            _ => list.push(Value::String(text(wire, path)?)),
        }
    }
    Ok(if shape == Shape::SchemaOrBool { Value::Bool(false) } else { Value::Array(list) })
}
