//! The values that expressions work with. Most are views of JSON through a type: nothing is copied before it is used. It
//! decides equality, order and conversion to and from JSON.

use super::duration::Span;
use super::error::Error;
use super::semver::Semver;
use super::types::{Decl, ObjectType, Type};
use super::url::Url;
use crate::quantity::Quantity;
use crate::structural::Format;
use crate::time::Timestamp;
use base64::Engine;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A text of the object or a new one.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    Ref(&'a str),
    New(Arc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Ref(text) => text,
            Text::New(text) => text,
        }
    }
}

/// The key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    /// Above what an integer holds.
    Uint(u64),
    Text(String),
}

/// What the members of a JSON object are.
#[derive(Debug, Clone, Copy)]
pub enum Members<'a> {
    Fields(&'a ObjectType),
    Values(&'a Decl),
}

#[derive(Debug, Clone)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Val<'a>>>),
    /// With the declaration of the list.
    Array(&'a [Value], &'a Decl),
    Map(Arc<BTreeMap<Key, Val<'a>>>),
    Object(&'a Map<String, Value>, Members<'a>),
    Span(Span),
    Time(Timestamp),
    Optional(Option<Arc<Val<'a>>>),
    Type(&'static str),
    Quantity(Quantity),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Semver(Arc<Semver>),
    Format(Format),
}

impl<'a> Val<'a> {
    pub fn text(text: impl Into<Arc<str>>) -> Val<'a> {
        Val::Text(Text::New(text.into()))
    }

    pub fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(Arc::new(items))
    }

    pub fn some(value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(Arc::new(value)))
    }

    /// Sees JSON through a type. What does not fit the type is seen as it is: an invalid object has other errors.
    pub fn of(json: &'a Value, decl: &'a Decl) -> Val<'a> {
        match (json, &decl.ty) {
            (Value::Null, _) => Val::Null,
            (Value::Bool(value), _) => Val::Bool(*value),
            (Value::Number(number), ty) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) if *ty != Type::Double => Val::Int(whole),
                (_, Some(value)) if *ty == Type::Int && value.fract() == 0.0 && value.abs() < 9e18 => {
                    Val::Int(value as i64)
                }
                (_, value) => Val::Double(value.unwrap_or_default()),
            },
            (Value::String(text), Type::Bytes) => match base64::engine::general_purpose::STANDARD.decode(text) {
                Ok(bytes) => Val::Bytes(bytes.into()),
                Err(_) => Val::Text(Text::Ref(text)),
            },
            (Value::String(text), Type::Duration) => Span::parse(text).map_or(Val::Text(Text::Ref(text)), Val::Span),
            (Value::String(text), Type::Timestamp) => time(text).map_or(Val::Text(Text::Ref(text)), Val::Time),
            (Value::String(text), _) => Val::Text(Text::Ref(text)),
            (Value::Array(items), _) => Val::Array(items, decl),
            (Value::Object(members), Type::Object(object)) => Val::Object(members, Members::Fields(object)),
            (Value::Object(members), Type::Map(_, decl)) => Val::Object(members, Members::Values(decl)),
            (Value::Object(members), _) => Val::Object(members, Members::Values(Decl::dynamic())),
        }
    }

    /// The word of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::List(_) | Val::Array(..) => "list",
            Val::Map(_) => "map",
            Val::Object(_, Members::Fields(_)) => "object",
            Val::Object(..) => "map",
            Val::Span(_) => "google.protobuf.Duration",
            Val::Time(_) => "google.protobuf.Timestamp",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Quantity(_) => "kubernetes.Quantity",
            Val::Url(_) => "kubernetes.URL",
            Val::Ip(_) => "net.IP",
            Val::Cidr(..) => "net.CIDR",
            Val::Semver(_) => "kubernetes.Semver",
            Val::Format(_) => "kubernetes.NamedFormat",
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Val::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The size of a list.
    pub fn list_len(&self) -> Option<usize> {
        match self {
            Val::List(items) => Some(items.len()),
            Val::Array(items, _) => Some(items.len()),
            _ => None,
        }
    }

    pub fn item(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Val::List(items) => items.get(index).cloned(),
            Val::Array(items, decl) => {
                let decl = if let Type::List(decl) = &decl.ty { decl } else { Decl::dynamic() };
                items.get(index).map(|item| Val::of(item, decl))
            }
            _ => None,
        }
    }

    /// Whether this is a list in which order does not matter.
    pub fn is_unordered(&self) -> bool {
        matches!(self, Val::Array(_, decl) if decl.unordered)
    }

    pub fn items(&self) -> impl Iterator<Item = Val<'a>> {
        (0..self.list_len().unwrap_or_default()).filter_map(|index| self.item(index))
    }

    pub fn is_map(&self) -> bool {
        matches!(self, Val::Map(_) | Val::Object(..))
    }

    /// The number of entries of a map.
    pub fn map_len(&self) -> usize {
        match self {
            Val::Map(entries) => entries.len(),
            Val::Object(members, Members::Values(_)) => members.len(),
            Val::Object(members, Members::Fields(object)) => {
                object.fields.values().filter(|field| members.contains_key(&field.json)).count()
            }
            _ => 0,
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        match self {
            Val::Map(entries) => entries.keys().cloned().collect(),
            Val::Object(members, Members::Values(_)) => members.keys().map(|key| Key::Text(key.clone())).collect(),
            Val::Object(members, Members::Fields(object)) => {
                let present = object.fields.iter().filter(|(_, field)| members.contains_key(&field.json));
                present.map(|(name, _)| Key::Text(name.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    pub fn entry(&self, key: &Key) -> Option<Val<'a>> {
        match (self, key) {
            (Val::Map(entries), key) => entries.get(key).cloned(),
            (Val::Object(..), Key::Text(name)) => self.field(name),
            _ => None,
        }
    }

    pub fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Val::Object(members, Members::Values(decl)) => members.get(name).map(|value| Val::of(value, decl)),
            Val::Object(members, Members::Fields(object)) => {
                let field = object.fields.get(name)?;
                members.get(&field.json).map(|value| Val::of(value, &field.decl))
            }
            Val::Map(entries) => entries.get(&Key::Text(name.to_owned())).cloned(),
            _ => None,
        }
    }

    pub fn to_key(&self) -> Option<Key> {
        match self {
            Val::Bool(value) => Some(Key::Bool(*value)),
            Val::Int(value) => Some(Key::Int(*value)),
            Val::Uint(value) => Some(i64::try_from(*value).map_or(Key::Uint(*value), Key::Int)),
            Val::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Some(Key::Int(*value as i64)),
            Val::Text(text) => Some(Key::Text(text.as_str().to_owned())),
            _ => None,
        }
    }

    /// Roughly how much there is to look at, so that looking can be paid for.
    pub fn weight(&self) -> u64 {
        match self {
            Val::Text(text) => text.as_str().len() as u64 / 10,
            Val::Bytes(bytes) => bytes.len() as u64 / 10,
            Val::List(items) => items.len() as u64,
            Val::Array(items, _) => items.len() as u64,
            Val::Map(entries) => entries.len() as u64,
            Val::Object(members, _) => members.len() as u64,
            _ => 0,
        }
    }
}

impl From<Key> for Val<'_> {
    fn from(key: Key) -> Self {
        match key {
            Key::Bool(value) => Val::Bool(value),
            Key::Int(value) => Val::Int(value),
            Key::Uint(value) => Val::Uint(value),
            Key::Text(text) => Val::text(text),
        }
    }
}

/// A date or a date with a time.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| if text.len() == 10 { format!("{text}T00:00:00Z").parse().ok() } else { None })
}

/// How many steps an equality or an order may take; see `Meter`.
pub(super) trait Pay {
    fn pay(&mut self, cost: u64) -> Result<(), Error>;
}

/// Equality of any two values; those of different types differ, numbers compare by value.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>, purse: &mut dyn Pay) -> Result<bool, Error> {
    purse.pay(a.weight().min(b.weight()))?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(x), Val::Bool(y)) => x == y,
        (Val::Text(x), Val::Text(y)) => x.as_str() == y.as_str(),
        (Val::Bytes(x), Val::Bytes(y)) => x == y,
        (Val::Span(x), Val::Span(y)) => x == y,
        (Val::Time(x), Val::Time(y)) => x == y,
        (Val::Type(x), Val::Type(y)) => x == y,
        (Val::Quantity(x), Val::Quantity(y)) => x == y,
        (Val::Url(x), Val::Url(y)) => x == y,
        (Val::Ip(x), Val::Ip(y)) => x == y,
        (Val::Cidr(x, p), Val::Cidr(y, q)) => x == y && p == q,
        (Val::Semver(x), Val::Semver(y)) => x.compare(y) == Ordering::Equal,
        (Val::Format(x), Val::Format(y)) => x.name == y.name,
        (Val::Optional(x), Val::Optional(y)) => match (x, y) {
            (Some(x), Some(y)) => equal(x, y, purse)?,
            (x, y) => x.is_none() == y.is_none(),
        },
        (a, b) if a.list_len().is_some() && a.list_len() == b.list_len() => {
            if a.is_unordered() || b.is_unordered() {
                return Ok(all_in(a, b, purse)? && all_in(b, a, purse)?);
            }
            for (x, y) in a.items().zip(b.items()) {
                if !equal(&x, &y, purse)? {
                    return Ok(false);
                }
            }
            true
        }
        (a, b) if a.is_map() && b.is_map() => {
            if a.map_len() != b.map_len() {
                return Ok(false);
            }
            for key in a.keys() {
                let (Some(x), Some(y)) = (a.entry(&key), b.entry(&key)) else { return Ok(false) };
                if !equal(&x, &y, purse)? {
                    return Ok(false);
                }
            }
            true
        }
        (a, b) => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn all_in(wanted: &Val<'_>, list: &Val<'_>, purse: &mut dyn Pay) -> Result<bool, Error> {
    for item in wanted.items() {
        if !is_in(&item, list, purse)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a list has an item equal to this.
pub(super) fn is_in(item: &Val<'_>, list: &Val<'_>, purse: &mut dyn Pay) -> Result<bool, Error> {
    for other in list.items() {
        purse.pay(1)?;
        if equal(item, &other, purse)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The order of two numbers of any kinds.
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    let whole = |value: &Val<'_>| match value {
        Val::Int(value) => Some(i128::from(*value)),
        Val::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    let float = |value: &Val<'_>| match value {
        Val::Double(value) => Some(*value),
        other => whole(other).map(|value| value as f64),
    };
    match (whole(a), whole(b)) {
        (Some(x), Some(y)) => Some(x.cmp(&y)),
        _ => float(a)?.partial_cmp(&float(b)?),
    }
}

/// The order of two values, where they have one.
pub(super) fn compare(a: &Val<'_>, b: &Val<'_>) -> Option<Ordering> {
    match (a, b) {
        (Val::Bool(x), Val::Bool(y)) => Some(x.cmp(y)),
        (Val::Text(x), Val::Text(y)) => Some(x.as_str().cmp(y.as_str())),
        (Val::Bytes(x), Val::Bytes(y)) => Some(x.cmp(y)),
        (Val::Span(x), Val::Span(y)) => Some(x.cmp(y)),
        (Val::Time(x), Val::Time(y)) => Some(x.cmp(y)),
        (a, b) => numbers(a, b),
    }
}

/// The JSON of a value.
pub(super) fn to_json(value: &Val<'_>) -> Result<Value, Error> {
    Ok(match value {
        Val::Null | Val::Optional(None) => Value::Null,
        Val::Bool(value) => (*value).into(),
        Val::Int(value) => (*value).into(),
        Val::Uint(value) => (*value).into(),
        Val::Double(value) => (*value).into(),
        Val::Text(text) => text.as_str().into(),
        Val::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
        Val::List(_) | Val::Array(..) => {
            let items: Result<Vec<Value>, Error> = value.items().map(|item| to_json(&item)).collect();
            Value::Array(items?)
        }
        // A field keeps the name that it has in JSON.
        Val::Object(members, Members::Fields(_)) => Value::Object((*members).clone()),
        Val::Map(_) | Val::Object(..) => {
            let mut members = Map::new();
            for key in value.keys() {
                let Key::Text(name) = &key else { return Err(Error::failed("only strings are keys in JSON")) };
                members.insert(name.clone(), to_json(&value.entry(&key).unwrap_or(Val::Null))?);
            }
            Value::Object(members)
        }
        Val::Span(span) => span.to_string().into(),
        Val::Time(time) => super::functions::time_text(*time).into(),
        Val::Optional(Some(value)) => to_json(value)?,
        Val::Type(name) => (*name).into(),
        Val::Quantity(quantity) => quantity.to_string().into(),
        Val::Url(url) => url.as_str().into(),
        Val::Ip(ip) => ip.to_string().into(),
        Val::Cidr(ip, prefix) => format!("{ip}/{prefix}").into(),
        Val::Semver(version) => version.to_string().into(),
        Val::Format(format) => format.name.into(),
    })
}
