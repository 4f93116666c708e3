//! From objects to response bytes: whole, metadata only, or as table rows; JSON or YAML. Decides the shape of lists and tables.

use super::stored::Written;
use crate::cache::{EventType, Object, Resource};
use crate::http::body::{JSON, respond};
use crate::http::negotiate::{Encoding, Output, Projection};
use crate::http::{Outcome, Response};
use bytes::{Bytes, BytesMut};
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use http::StatusCode;
use serde_json::{Value, json};

/// What of the object a table row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    pub fn read(text: Option<&str>) -> Outcome<Self> {
        Ok(match text {
            None | Some("Metadata") => Self::Metadata,
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            Some(other) => {
                let text =
                    format!("unrecognized includeObject value: {other:?}: must be one of None, Metadata, Object");
                return Err(Status::bad_request(text).into());
            }
        })
    }
}

/// How this request wants objects written.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub output: Output,
    pub include: Include,
    pub now: Timestamp,
}

impl Writer {
    /// One object as an answer's body (JSON; see [`Writer::respond`] for the encoding).
    pub fn object(&self, resource: &Resource, object: &Object) -> Bytes {
        match self.output.projection {
            Projection::Whole => object.json(),
            Projection::Metadata => metadata_only(object),
            Projection::Table => {
                let mut out = BytesMut::new();
                table_head(resource, &json!({"resourceVersion": object.revision.to_string()}), &mut out);
                self.row(resource, object, &mut out);
                out.extend_from_slice(b"]}");
                out.freeze()
            }
        }
    }

    /// The part of a list before its items.
    pub fn list_head(&self, resource: &Resource, metadata: &Value, out: &mut BytesMut) {
        let head = match self.output.projection {
            Projection::Table => return table_head(resource, metadata, out),
            Projection::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Projection::Whole => (resource.kind.list_kind(), resource.kind.api_version()),
        };
        let text =
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[", head.0, head.1);
        out.extend_from_slice(text.as_bytes());
    }

    /// One item of a list.
    pub fn item(&self, resource: &Resource, object: &Object, out: &mut BytesMut) {
        match self.output.projection {
            Projection::Whole => out.extend_from_slice(&object.json()),
            Projection::Metadata => out.extend_from_slice(&metadata_only(object)),
            Projection::Table => self.row(resource, object, out),
        }
    }

    fn row(&self, resource: &Resource, object: &Object, out: &mut BytesMut) {
        let cells = Value::from(resource.strategy.row(&object.value().unwrap_or_default(), self.now));
        out.extend_from_slice(format!("{{\"cells\":{cells}").as_bytes());
        match self.include {
            Include::None => {}
            Include::Metadata => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(&metadata_only(object));
            }
            Include::Object => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(&object.json());
            }
        }
        out.extend_from_slice(b"}");
    }

    /// The object of a watch event. `first` tables carry their column definitions.
    pub fn event_object(&self, resource: &Resource, object: &Object, first: bool) -> Bytes {
        if self.output.projection != Projection::Table {
            return self.object(resource, object);
        }
        let mut out = BytesMut::new();
        let metadata = json!({"resourceVersion": object.revision.to_string()});
        let columns = if first { column_definitions(resource) } else { Value::Null };
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
        );
        out.extend_from_slice(head.as_bytes());
        self.row(resource, object, &mut out);
        out.extend_from_slice(b"]}");
        out.freeze()
    }

    /// What a write left, as its answer.
    pub fn written(&self, resource: &Resource, written: &Written) -> Outcome<Response> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        if self.output.projection == Projection::Whole {
            return self.respond(code, written.json()?);
        }
        let object = Object::parse(&written.bytes, written.revision, EventType::Added, resource.selectable);
        let object = object.map_err(Status::internal)?;
        self.respond(code, self.object(resource, &object))
    }

    /// JSON bytes in the encoding that the client accepts.
    pub fn respond(&self, code: StatusCode, body: Bytes) -> Outcome<Response> {
        respond_in(self.output.encoding, code, body)
    }

    pub fn value(&self, code: StatusCode, body: &Value) -> Outcome<Response> {
        self.respond(code, serde_json::to_vec(body).map_err(Status::internal)?.into())
    }
}

pub fn respond_in(encoding: Encoding, code: StatusCode, body: Bytes) -> Outcome<Response> {
    match encoding {
        Encoding::Json => Ok(respond(code, JSON, body)),
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(&body).map_err(Status::internal)?;
            let text = serde_saphyr::to_string(&value).map_err(Status::internal)?;
            Ok(respond(code, "application/yaml", text))
        }
    }
}

fn metadata_only(object: &Object) -> Bytes {
    const HEAD: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":";
    let metadata = object.metadata_json();
    let mut out = BytesMut::with_capacity(HEAD.len() + metadata.len() + 1);
    out.extend_from_slice(HEAD);
    out.extend_from_slice(metadata);
    out.extend_from_slice(b"}");
    out.freeze()
}

fn column_definitions(resource: &Resource) -> Value {
    resource
        .strategy
        .columns()
        .iter()
        .map(|column| {
            json!({"name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority})
        })
        .collect()
}

fn table_head(resource: &Resource, metadata: &Value, out: &mut BytesMut) {
    let columns = column_definitions(resource);
    let head = format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
    );
    out.extend_from_slice(head.as_bytes());
}
