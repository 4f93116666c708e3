//! From a request body to an object. Decides what a malformed, mistyped or over-full body answers; never what an object means.

use super::call::{Call, FieldValidation};
use crate::http::Outcome;
use crate::http::negotiate::Input;
use bytes::Bytes;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::protobuf;
use gantry_apimachinery::schema::decode::{self, DecodeError, Decoded};
use gantry_apimachinery::schema::{Schema, Type};
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// The schema's type of a kind; kinds without one are kept as they are.
pub fn schema_type(group: &str, version: &str, kind: &str) -> Type<'static> {
    Schema::builtin().kind(group, version, kind).unwrap_or_else(Type::any)
}

fn failure(error: DecodeError) -> Status {
    Status::bad_request(error.to_string())
}

/// Decodes a body as an object of the given kind. Problems that may be forgiven come back in `Decoded`.
pub fn decode(input: Input, body: &Bytes, group: &str, version: &str, kind: &str) -> Outcome<Decoded> {
    if body.is_empty() {
        return Err(Status::bad_request("the request body is empty").into());
    }
    let ty = schema_type(group, version, kind);
    let mut decoded = match input {
        Input::Json => decode::from_json(body, ty).map_err(failure)?,
        Input::Yaml | Input::ApplyYaml => decode::from_yaml(body, ty).map_err(failure)?,
        Input::Protobuf => {
            let object = protobuf::decode(body, ty).map_err(|error| Status::bad_request(error.to_string()))?;
            Decoded { object, unknown: Vec::new(), duplicate: Vec::new() }
        }
        _ => return Err(Status::unsupported_media_type(&["application/json", "application/yaml"]).into()),
    };
    if !decoded.object.is_object() {
        return Err(Status::bad_request(format!("the request body is not a {kind} object")).into());
    }
    check_kind(&mut decoded.object, group, version, kind)?;
    Ok(decoded)
}

/// The body's own kind must be the endpoint's; a body that names none gets it.
pub fn check_kind(object: &mut Value, group: &str, version: &str, kind: &str) -> Outcome<()> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let given = |field: &str| object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (given("apiVersion"), given("kind")) {
        (a, k) if a.is_none_or(|a| a == api_version) && k.is_none_or(|k| k == kind) => {}
        (Some(a), _) if a != api_version => {
            return Err(Status::bad_request(format!(
                "the API version in the data ({a}) does not match the expected API version ({api_version})"
            ))
            .into());
        }
        (_, k) => {
            let k = k.unwrap_or("");
            return Err(
                Status::bad_request(format!("{k} in version {api_version:?} cannot be handled as a {kind}")).into()
            );
        }
    }
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(())
}

impl Call<'_> {
    /// Decodes a body as the call's kind, applies `fieldValidation`, and answers its working form.
    pub fn decode(&self, input: Input, body: &Bytes) -> Outcome<Value> {
        let kind: &Kind = self.kind();
        let decoded = match self.served.as_custom() {
            Some(_) if input == Input::Protobuf => {
                return Err(Status::unsupported_media_type(&["application/json", "application/yaml"]).into());
            }
            Some(version) => version.pruned(decode(input, body, kind.group, kind.version, kind.kind)?),
            None => decode(input, body, kind.group, kind.version, kind.kind)?,
        };
        Ok(self.served.from_wire(self.settle(decoded)?))
    }

    /// Decodes an applied configuration, in the request's version. It names its kind, and no field that the kind does not have: ownership of a field that is
    /// dropped would mean nothing.
    pub fn decode_applied(&self, body: &Bytes) -> Outcome<Value> {
        let kind = self.kind();
        let given = decode::untyped(body).map_err(failure)?;
        for field in ["apiVersion", "kind"] {
            if given[field].as_str().is_none_or(str::is_empty) {
                let text = format!(
                    "Object '{}' is missing in the applied configuration",
                    if field == "kind" { "Kind" } else { "apiVersion" }
                );
                return Err(Status::bad_request(text).into());
            }
        }
        let decoded = decode(Input::ApplyYaml, body, kind.group, kind.version, kind.kind)?;
        let decoded = match self.served.as_custom() {
            Some(version) => version.pruned(decoded),
            None => decoded,
        };
        if let Some(unknown) = decoded.unknown.first() {
            let text = format!(
                "failed to create typed patch object ({}/{}; {}, Kind={}): .{unknown}: field not declared in schema",
                self.namespace,
                self.name,
                kind.api_version(),
                kind.kind
            );
            return Err(Status::bad_request(text).into());
        }
        self.settle(decoded)
    }

    /// The type of what this call's clients send.
    pub fn wire_type(&self) -> Type<'_> {
        match self.served.as_custom() {
            Some(version) => version.schema(),
            None => schema_type(self.kind().group, self.kind().version, self.kind().kind),
        }
    }

    /// Unknown and duplicate fields become warnings or, under Strict, an error.
    pub fn settle(&self, decoded: Decoded) -> Outcome<Value> {
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warn(decoded.problems()),
            FieldValidation::Strict => {
                if let Some(problem) = decoded.strict_error() {
                    return Err(Status::bad_request(problem).into());
                }
            }
        }
        Ok(decoded.object)
    }
}
