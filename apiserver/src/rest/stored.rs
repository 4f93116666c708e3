//! One object as read from the store, and as a write left it. Decides nothing.

use crate::cache::object::with_revision;
use crate::http::Outcome;
use bytes::Bytes;
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// A version of an object with its decoded JSON.
#[derive(Clone, Debug)]
pub struct Stored {
    /// As stored: without a resource version.
    pub value: Value,
    pub revision: u64,
}

impl Stored {
    pub fn read(bytes: Bytes, revision: u64) -> Outcome<Self> {
        let value =
            serde_json::from_slice(&bytes).map_err(|error| Status::internal(format!("stored object: {error}")))?;
        Ok(Self { value, revision })
    }

    /// From a cached version, whose bytes carry the resource version.
    pub fn from_cache(object: &crate::cache::Object) -> Outcome<Self> {
        let mut value = object.value().map_err(Status::internal)?;
        if let Some(meta) = value["metadata"].as_object_mut() {
            meta.remove("resourceVersion");
        }
        Ok(Self { value, revision: object.revision })
    }

    /// Shows the object with its resource version, as clients and patches see it.
    pub fn seen<T>(&mut self, look: impl FnOnce(&Value) -> T) -> T {
        self.value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let seen = look(&self.value);
        if let Some(meta) = self.value["metadata"].as_object_mut() {
            meta.remove("resourceVersion");
        }
        seen
    }

    /// The object with its resource version, as clients and patches see it.
    pub fn with_revision(&self) -> Value {
        let mut value = self.value.clone();
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }
}

/// What a write left behind.
#[derive(Clone, Debug)]
pub struct Written {
    /// As stored.
    pub bytes: Bytes,
    pub revision: u64,
    /// The write made the object: 201.
    pub created: bool,
    /// The write removed the object; the bytes are its last state.
    pub deleted: bool,
}

impl Written {
    /// The object's JSON as the client gets it. A dry run has no revision of its own.
    pub fn json(&self) -> Outcome<Bytes> {
        if self.revision == 0 {
            return Ok(self.bytes.clone());
        }
        with_revision(&self.bytes, self.revision).map_err(|error| Status::internal(error).into())
    }
}
