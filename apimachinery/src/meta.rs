//! The part of every object that all components read: identity, versions, labels, owners and deletion.
//!
//! It decides how that header is read from an object's bytes; it never interprets spec or status.

use crate::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

macro_rules! string_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
        impl From<&str> for $name {
            fn from(s: &str) -> Self {
                Self(s.to_owned())
            }
        }
        impl From<String> for $name {
            fn from(s: String) -> Self {
                Self(s)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

string_newtype!(
    /// An object's identity over all time: a name can be used again, a uid never.
    Uid
);
string_newtype!(
    /// A machine's name.
    NodeName
);

/// `metadata`, without managedFields and what only the API server needs.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub generate_name: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    #[serde(skip_serializing_if = "Uid::is_empty", deserialize_with = "null_as_default")]
    pub uid: Uid,
    /// Opaque outside the API server, but an integer comparable within one resource. Empty when not known.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_as_default")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
}

/// `metav1.OwnerReference`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: Uid,
    /// The one owner whose controller manages this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

impl ObjectMeta {
    /// The owner that manages this object, if one does.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|o| o.is_controller())
    }
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
    /// The resource version as a number; 0 when empty or not a number.
    pub fn revision(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// Anything with `metadata`: what informers and controllers ask of a projected object.
pub trait Object {
    fn meta(&self) -> &ObjectMeta;

    fn name(&self) -> &str {
        &self.meta().name
    }
    fn namespace(&self) -> &str {
        &self.meta().namespace
    }
    fn uid(&self) -> &Uid {
        &self.meta().uid
    }
}

/// What is read of every object, whatever its kind. Also the slimmest projection of one.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    pub metadata: ObjectMeta,
}

impl Header {
    /// Reads the header from an object's JSON, skipping the rest.
    ///
    /// # Errors
    /// When the bytes are not JSON or `metadata` has the wrong types.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

impl Object for Header {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// `apiVersion` split into group and version: `apps/v1` → (`apps`, `v1`), `v1` → (``, `v1`).
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_from_whole_objects() {
        let json = br#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"x"}]},"metadata":{
            "name":"a","namespace":"b","uid":"u","resourceVersion":"7","creationTimestamp":"2024-01-01T00:00:00Z",
            "labels":null,"managedFields":[{"manager":"m"}],
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o","controller":true}]}}"#;
        let h = Header::parse(json).unwrap();
        assert_eq!((h.name(), h.namespace(), h.meta().revision(), h.meta().key().as_str()), ("a", "b", 7, "b/a"));
        assert_eq!(h.metadata.controller().unwrap().uid, "o");
    }

    #[test]
    fn absent_parts_are_not_written() {
        let meta = ObjectMeta { name: "a".into(), ..Default::default() };
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"a"}"#);
    }

    #[test]
    fn api_versions_split() {
        assert_eq!(split_api_version("apps/v1"), ("apps", "v1"));
        assert_eq!(split_api_version("v1"), ("", "v1"));
    }
}
