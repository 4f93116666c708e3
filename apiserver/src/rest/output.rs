//! From objects to response bytes: whole, metadata only, or as table rows; JSON or YAML. Decides the shape of lists and tables.

use super::stored::Written;
use crate::cache::{EventType, Object};
use crate::http::body::{JSON, respond};
use crate::http::negotiate::{Encoding, Output, Projection};
use crate::http::{Outcome, Response};
use crate::served::Served;
use bytes::{Bytes, BytesMut};
use gantry_apimachinery::meta::split_api_version;
use gantry_apimachinery::protobuf;
use gantry_apimachinery::schema::{Schema, Type};
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

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
    pub fn object(&self, served: &Served, object: &Object) -> Bytes {
        match self.output.projection {
            Projection::Whole => object.json(),
            Projection::Metadata => metadata_only(object),
            Projection::Table => {
                let mut out = BytesMut::new();
                table_head(served, &json!({"resourceVersion": object.revision.to_string()}), &mut out);
                self.row(served, object, &mut out);
                out.extend_from_slice(b"]}");
                out.freeze()
            }
        }
    }

    /// The part of a list before its items.
    pub fn list_head(&self, served: &Served, metadata: &Value, out: &mut BytesMut) {
        let head = match self.output.projection {
            Projection::Table => return table_head(served, metadata, out),
            Projection::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            Projection::Whole => (served.kind.list_kind(), served.kind.api_version()),
        };
        let text =
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[", head.0, head.1);
        out.extend_from_slice(text.as_bytes());
    }

    /// One item of a list.
    pub fn item(&self, served: &Served, object: &Object, out: &mut BytesMut) {
        match self.output.projection {
            Projection::Whole => out.extend_from_slice(&object.json()),
            Projection::Metadata => out.extend_from_slice(&metadata_only(object)),
            Projection::Table => self.row(served, object, out),
        }
    }

    fn row(&self, served: &Served, object: &Object, out: &mut BytesMut) {
        let cells = Value::from(served.row(&object.value().unwrap_or_default(), self.now));
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
    pub fn event_object(&self, served: &Served, object: &Object, first: bool) -> Bytes {
        if self.output.projection != Projection::Table {
            return self.object(served, object);
        }
        let mut out = BytesMut::new();
        let metadata = json!({"resourceVersion": object.revision.to_string()});
        let columns = if first { served.column_definitions() } else { Value::Null };
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
        );
        out.extend_from_slice(head.as_bytes());
        self.row(served, object, &mut out);
        out.extend_from_slice(b"]}");
        out.freeze()
    }

    /// What a write left, as its answer.
    pub async fn written(&self, served: &Served, written: &Written) -> Outcome<Response> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        if self.output.projection == Projection::Whole {
            return self.respond(code, served.show_written(written).await?);
        }
        let object = Object::parse(&written.bytes, written.revision, EventType::Added, &served.resource.selectable);
        let object = served.show(Arc::new(object.map_err(Status::internal)?)).await?;
        self.respond(code, self.object(served, &object))
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
        Encoding::Protobuf => {
            let value: Value = serde_json::from_slice(&body).map_err(Status::internal)?;
            Ok(respond(code, PROTOBUF, protobuf::encode(&value, message_type(&value)?)))
        }
    }
}

pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The message that an object travels as. Custom resources, Gantry's own kinds and rows have none.
pub fn message_type(object: &Value) -> Outcome<Type<'static>> {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap_or(""));
    let known = Schema::builtin().kind(group, version, object["kind"].as_str().unwrap_or(""));
    known
        .filter(|ty| protobuf::is_message(*ty))
        .ok_or_else(|| Status::not_acceptable(&["application/json", "application/yaml"]).into())
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

fn table_head(served: &Served, metadata: &Value, out: &mut BytesMut) {
    let columns = served.column_definitions();
    let head = format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{columns},\"rows\":["
    );
    out.extend_from_slice(head.as_bytes());
}
