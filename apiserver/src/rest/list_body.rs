//! How a list becomes an answer's body: a short one whole, a long one in pieces as its client takes them, so that no list costs
//! memory by its length. Decides the pieces' form; never what is in the list.

use super::output::{PROTOBUF, Writer, message_type};
use crate::cache::Object;
use crate::http::body::{JSON, respond, stream};
use crate::http::negotiate::{Encoding, Projection};
use crate::http::{Outcome, Response};
use crate::served::Served;
use bytes::{Bytes, BytesMut};
use gantry_apimachinery::protobuf;
use gantry_apimachinery::schema::Type;
use gantry_apimachinery::status::Status;
use http::StatusCode;
use serde_json::Value;
use std::sync::Arc;

/// Lists up to this size are one buffer; larger ones are sent as they are put together.
const CHUNK: usize = 256 * 1024;
/// Items that are measured before others get the processor.
const AT_ONCE: usize = 64;

/// `metadata`: the list's own.
pub async fn respond_with(
    served: &Arc<Served>,
    metadata: &Value,
    objects: Vec<Arc<Object>>,
    writer: &Writer,
) -> Outcome<Response> {
    let size: usize = objects.iter().map(|object| object.weight()).sum();
    let mut head = BytesMut::with_capacity(size.min(CHUNK) + 256);
    writer.list_head(served, metadata, &mut head);
    if size <= CHUNK {
        for (at, object) in objects.iter().enumerate() {
            if at > 0 {
                head.extend_from_slice(b",");
            }
            writer.item(served, object, &mut head);
        }
        head.extend_from_slice(b"]}");
        return writer.respond(StatusCode::OK, head.freeze());
    }
    let mut pieces = Pieces {
        objects: objects.into_iter(),
        served: served.clone(),
        writer: *writer,
        form: Form::Json,
        buffer: head,
        first: true,
        done: false,
    };
    let content_type = match writer.output.encoding {
        Encoding::Json => JSON,
        Encoding::Yaml => {
            pieces.begin_yaml()?;
            "application/yaml"
        }
        Encoding::Protobuf => {
            pieces.begin_protobuf().await?;
            PROTOBUF
        }
    };
    let mut response = respond(StatusCode::OK, content_type, Bytes::new());
    *response.body_mut() = stream(futures::stream::iter(pieces));
    Ok(response)
}

/// How one item is written.
#[derive(Clone, Copy)]
enum Form {
    Json,
    /// An element of the block sequence that ends the document.
    Yaml,
    /// A field of the list's message; the type is the item's.
    Protobuf(Type<'static>),
}

/// A long list in pieces of about [`CHUNK`] bytes.
struct Pieces {
    objects: std::vec::IntoIter<Arc<Object>>,
    served: Arc<Served>,
    writer: Writer,
    form: Form,
    /// At first the list's beginning.
    buffer: BytesMut,
    first: bool,
    done: bool,
}

impl Pieces {
    /// The list without its items; the buffer holds its beginning as JSON.
    fn head(&mut self) -> Outcome<Value> {
        self.buffer.extend_from_slice(b"]}");
        let mut head: Value = serde_json::from_slice(&self.buffer).map_err(Status::internal)?;
        self.buffer.clear();
        if let Some(head) = head.as_object_mut() {
            head.remove(self.member());
        }
        Ok(head)
    }

    fn member(&self) -> &'static str {
        if self.writer.output.projection == Projection::Table { "rows" } else { "items" }
    }

    fn begin_yaml(&mut self) -> Outcome<()> {
        let head = serde_saphyr::to_string(&self.head()?).map_err(Status::internal)?;
        self.buffer.extend_from_slice(head.trim_end().as_bytes());
        self.buffer.extend_from_slice(format!("\n{}:\n", self.member()).as_bytes());
        self.form = Form::Yaml;
        Ok(())
    }

    /// A message says its length first: the items are encoded once to be measured, and again to be sent.
    async fn begin_protobuf(&mut self) -> Outcome<()> {
        let head = self.head()?;
        let ty = message_type(&head)?;
        let item = ty.field("items").and_then(|items| items.ty().items());
        let Some(item) = item else {
            return Err(Status::not_acceptable(&["application/json", "application/yaml"]).into());
        };
        self.form = Form::Protobuf(item);
        let mut length = 0;
        let mut one = BytesMut::new();
        for (at, object) in self.objects.as_slice().iter().enumerate() {
            if at % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            one.clear();
            self.write(object, &mut one);
            length += one.len();
        }
        self.buffer.extend_from_slice(&protobuf::list_head(&head, ty, length));
        Ok(())
    }

    fn write(&self, object: &Object, out: &mut BytesMut) {
        if let Form::Json = self.form {
            return self.writer.item(&self.served, object, out);
        }
        let mut json = BytesMut::new();
        self.writer.item(&self.served, object, &mut json);
        // What cannot be built from its own text is sent as nothing, everywhere.
        let value: Value = serde_json::from_slice(&json).unwrap_or_default();
        match self.form {
            Form::Protobuf(ty) => out.extend_from_slice(&protobuf::list_item(&value, ty)),
            _ => {
                let text = serde_saphyr::to_string(&value).unwrap_or_default();
                for (at, line) in text.lines().enumerate() {
                    out.extend_from_slice(if at == 0 { b"- " } else { b"  " });
                    out.extend_from_slice(line.as_bytes());
                    out.extend_from_slice(b"\n");
                }
            }
        }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;
    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let json = matches!(self.form, Form::Json);
        while buffer.len() < CHUNK {
            let Some(object) = self.objects.next() else {
                self.done = true;
                buffer.extend_from_slice(if json { b"]}" } else { b"" });
                break;
            };
            if !std::mem::take(&mut self.first) && json {
                buffer.extend_from_slice(b",");
            }
            self.write(&object, &mut buffer);
        }
        Some(buffer.freeze())
    }
}
