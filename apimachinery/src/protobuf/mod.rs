//! Decides how objects travel as Kubernetes' protobuf: the `k8s\0` envelope around a message whose field numbers stand in the
//! schema tables. It never holds a message type of its own.

mod decode;
mod encode;
pub(crate) mod wire;

use crate::schema::Type;
use crate::schema::decode::{DecodeError, from_value};
use serde_json::Value;
use wire::{Reader, Writer};

const MAGIC: &[u8; 4] = b"k8s\0";
/// As deep as JSON bodies may nest.
const MAX_DEPTH: usize = 128;

/// Bytes that are not an object in this encoding; the client gets it back as a 400.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoEnvelope,
    #[error("protobuf: the message ends in the middle of a field")]
    Truncated,
    #[error("protobuf: {path}: {what}")]
    Malformed { path: String, what: String },
    #[error("protobuf: nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error(transparent)]
    Value(#[from] DecodeError),
}

/// Decodes an enveloped object. `apiVersion` and `kind` come from the envelope.
pub fn decode(body: &[u8], ty: Type<'_>) -> Result<Value, ProtobufError> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut envelope = Reader::new(body.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?);
    while let Some((number, value)) = envelope.next()? {
        match number {
            1 => {
                let mut meta = Reader::new(value.bytes("typeMeta")?);
                while let Some((number, value)) = meta.next()? {
                    let text = String::from_utf8_lossy(value.bytes("typeMeta")?).into_owned();
                    match number {
                        1 => api_version = text,
                        2 => kind = text,
                        _ => {}
                    }
                }
            }
            2 => raw = value.bytes("raw")?,
            _ => {}
        }
    }
    // The same pass that JSON gets: canonical quantities and times, nothing said by empty lists.
    let mut object = from_value(decode::message(raw, ty)?, ty)?.object;
    for (key, text) in [("apiVersion", api_version), ("kind", kind)] {
        if !text.is_empty() && object.is_object() {
            object[key] = text.into();
        }
    }
    Ok(object)
}

/// Whether objects of a type travel in this encoding: Gantry's own kinds have no field numbers.
pub fn is_message(ty: Type<'_>) -> bool {
    ty.fields().any(|field| !field.proto_path().is_empty())
}

/// Encodes an object with its envelope. What the schema does not name is left out.
pub fn encode(object: &Value, ty: Type<'_>) -> Vec<u8> {
    let mut envelope = Writer::default();
    envelope.bytes(1, &type_meta(object));
    envelope.bytes(2, &encode::message(object, ty));
    [&MAGIC[..], &envelope.into_bytes()].concat()
}

fn type_meta(object: &Value) -> Vec<u8> {
    let mut meta = Writer::default();
    for (number, key) in [(1, "apiVersion"), (2, "kind")] {
        meta.bytes(number, object[key].as_str().unwrap_or_default().as_bytes());
    }
    meta.into_bytes()
}

/// The beginning of an enveloped list whose items take so many bytes in [`list_item`]'s form and follow, one after the other.
pub fn list_head(list: &Value, ty: Type<'_>, items: usize) -> Vec<u8> {
    let before = encode::message(list, ty);
    let mut envelope = Writer::default();
    envelope.bytes(1, &type_meta(list));
    envelope.open(2, before.len() + items);
    [&MAGIC[..], &envelope.into_bytes(), &before].concat()
}

/// One item as a field of its list. Every list of Kubernetes has its items after everything else.
pub fn list_item(item: &Value, ty: Type<'_>) -> Vec<u8> {
    const ITEMS: u16 = 2;
    let mut out = Writer::default();
    out.bytes(ITEMS, &encode::message(item, ty));
    out.into_bytes()
}

/// One frame of a watch: the length, then a `WatchEvent` without an envelope, whose object has one.
pub fn watch_frame(kind: &str, object: &Value, ty: Type<'_>) -> Vec<u8> {
    let mut raw = Writer::default();
    raw.bytes(1, &encode(object, ty));
    let mut event = Writer::default();
    event.bytes(1, kind.as_bytes());
    event.bytes(2, &raw.into_bytes());
    let event = event.into_bytes();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &event].concat()
}

#[cfg(test)]
mod tests;
