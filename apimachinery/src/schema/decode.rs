//! Decides how a body becomes an object: which syntax, types and field names are accepted, and what is dropped, as
//! Kubernetes' typed decoding does it (null is absent, unknown fields are reported and pruned, names are case-sensitive).
//! It never looks at a kind's meaning.

mod leaf;
mod visit;
mod yaml;

use super::Type;
use serde::de::DeserializeSeed;
use serde_json::Value;
use visit::{Seed, Walk};

/// A decoded object and what was wrong with it that may be forgiven.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub object: Value,
    /// Paths that the schema does not have, in order; at most 100.
    pub unknown: Vec<String>,
    /// Paths that were given more than once; the last value won.
    pub duplicate: Vec<String>,
}

impl Decoded {
    /// What Kubernetes puts into `Warning` headers, and joins into the error under Strict.
    pub fn problems(&self) -> Vec<String> {
        let unknown = self.unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let duplicate = self.duplicate.iter().map(|path| format!("duplicate field \"{path}\""));
        unknown.chain(duplicate).collect()
    }

    /// The error under `fieldValidation=Strict`, if there is one.
    pub fn strict_error(&self) -> Option<String> {
        let problems = self.problems();
        (!problems.is_empty()).then(|| format!("strict decoding error: {}", problems.join(", ")))
    }
}

/// A body that cannot be an object of its kind; the client gets it back as a 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Neither JSON nor YAML; `line` and `column` count from 1.
    #[error("{message} at line {line} column {column}")]
    Syntax { line: usize, column: usize, message: String },
    /// A value of the wrong type at `path`; `message` is worded as Go's decoder does.
    #[error("{message}")]
    Type { path: String, message: String },
}

/// Decodes a JSON body.
pub fn from_json(body: &[u8], ty: Type<'_>) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Seed::root(&mut walk, ty).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(value) => walk.finish(value),
        Err(error) => Err(syntax(&error)),
    }
}

/// Decodes one YAML document; a second one is an error.
pub fn from_yaml(body: &[u8], ty: Type<'_>) -> Result<Decoded, DecodeError> {
    yaml::read(body, |reader| {
        let mut walk = Walk::new();
        let value = Seed::root(&mut walk, ty).deserialize(reader)?;
        Ok(walk.finish(value))
    })?
}

/// Decodes what a patch made: the same checks, on a value already in memory.
pub fn from_value(value: Value, ty: Type<'_>) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::new();
    match Seed::root(&mut walk, ty).deserialize(value) {
        Ok(value) => walk.finish(value),
        Err(error) => Err(syntax(&error)),
    }
}

/// Drops what the schema does not name. Values of the wrong type are an error, as in `from_value`.
pub fn prune(value: &mut Value, ty: Type<'_>) -> Result<(), DecodeError> {
    *value = from_value(std::mem::take(value), ty)?.object;
    Ok(())
}

/// Checks the types without changing anything; the error names the field's path.
pub fn validate_types(value: &Value, ty: Type<'_>) -> Result<(), DecodeError> {
    from_value(value.clone(), ty).map(|_| ())
}

/// Reads JSON or YAML without a schema: what is a number, a text or a truth is decided by the syntax alone.
pub fn untyped(body: &[u8]) -> Result<Value, DecodeError> {
    if looks_like_json(body) { from_json(body, Type::any()) } else { from_yaml(body, Type::any()) }.map(|d| d.object)
}

fn looks_like_json(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'{' || *byte == b'[')
}

fn syntax(error: &serde_json::Error) -> DecodeError {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(text, _)| text);
    DecodeError::Syntax { line: error.line(), column: error.column(), message: message.to_string() }
}

#[cfg(test)]
mod tests;
