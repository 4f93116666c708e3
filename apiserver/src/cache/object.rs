//! An object in the watch cache: its JSON bytes with the resource version spliced in, and the few fields the server itself reads.
//!
//! The bytes are kept inside a ready watch frame, so that sending the event that made this version copies nothing. Decides where
//! the splice goes and what the header holds; never interprets a kind.

use crate::kinds::Selectable;
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

/// What a watch says happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
    /// The bytes of a watch frame before its object.
    pub const fn frame_head(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

pub const FRAME_TAIL: &[u8] = b"}\n";

/// One version of one object. Immutable; shared by the tree, the history, lists and watchers.
#[derive(Debug)]
pub struct Object {
    pub revision: u64,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub labels: BTreeMap<String, String>,
    /// The values of the kind's [`Selectable`] fields, in their order.
    pub fields: Box<[Box<str>]>,
    pub deleting: bool,
    born: EventType,
    frame: Bytes,
    body: Range<usize>,
    metadata: Range<usize>,
    /// Something computed from this version once, by whoever owns the kind (a pod's resource requests).
    derived: OnceLock<Box<dyn std::any::Any + Send + Sync>>,
}

/// The stored bytes are not an object that this server wrote.
#[derive(Debug, thiserror::Error)]
#[error("stored object is not readable: {0}")]
pub struct Unreadable(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

/// Where `metadata`'s text stands in an object's JSON.
fn metadata_range(bytes: &[u8]) -> Result<Range<usize>, serde_json::Error> {
    let top: Top = serde_json::from_slice(bytes)?;
    let text = top.metadata.get();
    let start = text.as_ptr() as usize - bytes.as_ptr() as usize;
    Ok(start..start + text.len())
}

/// The object as clients see it: the stored bytes with `metadata.resourceVersion`.
pub fn with_revision(stored: &[u8], revision: u64) -> Result<Bytes, Unreadable> {
    let metadata = metadata_range(stored)?;
    let mut out = BytesMut::with_capacity(stored.len() + 48);
    splice(&mut out, stored, &metadata, revision);
    Ok(out.freeze())
}

fn splice(out: &mut BytesMut, stored: &[u8], metadata: &Range<usize>, revision: u64) -> usize {
    let at = metadata.start + 1;
    let before = out.len();
    out.extend_from_slice(&stored[..at]);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    let empty = stored[at..metadata.end].iter().all(|b| b.is_ascii_whitespace() || *b == b'}');
    out.extend_from_slice(if empty { b"\"" } else { b"\"," });
    let grown = out.len() - before - at;
    out.extend_from_slice(&stored[at..]);
    grown
}

impl Object {
    /// Reads the header of stored bytes and frames them as the event `born`.
    pub fn parse(stored: &[u8], revision: u64, born: EventType, selectable: &[Selectable]) -> Result<Self, Unreadable> {
        let range = metadata_range(stored)?;
        let meta: Meta = serde_json::from_slice(&stored[range.clone()])?;
        let fields = read_fields(stored, selectable)?;
        let head = born.frame_head();
        let mut frame = BytesMut::with_capacity(head.len() + stored.len() + 48);
        frame.extend_from_slice(head);
        let grown = splice(&mut frame, stored, &range, revision);
        frame.extend_from_slice(FRAME_TAIL);
        let body = head.len()..frame.len() - FRAME_TAIL.len();
        Ok(Self {
            revision,
            namespace: meta.namespace.into(),
            name: meta.name.into(),
            uid: meta.uid.into(),
            labels: meta.labels.unwrap_or_default(),
            fields,
            deleting: meta.deletion_timestamp.is_some(),
            born,
            metadata: head.len() + range.start..head.len() + range.end + grown,
            frame: frame.freeze(),
            body,
            derived: OnceLock::new(),
        })
    }

    /// The same content as another event at another revision: the last state of something deleted at `revision`.
    pub fn reborn(&self, revision: u64, born: EventType) -> Self {
        let head = born.frame_head();
        let old = format!("\"resourceVersion\":\"{}\"", self.revision);
        let new = format!("\"resourceVersion\":\"{revision}\"");
        let after = self.metadata.start + 1 + old.len();
        let mut frame = BytesMut::with_capacity(self.frame.len() + 16);
        frame.extend_from_slice(head);
        frame.extend_from_slice(&self.frame[self.body.start..=self.metadata.start]);
        frame.extend_from_slice(new.as_bytes());
        frame.extend_from_slice(&self.frame[after..self.body.end]);
        frame.extend_from_slice(FRAME_TAIL);
        let moved = |at: usize| at + head.len() - self.body.start;
        Self {
            revision,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            deleting: self.deleting,
            born,
            metadata: moved(self.metadata.start)..moved(self.metadata.end) + new.len() - old.len(),
            body: head.len()..frame.len() - FRAME_TAIL.len(),
            frame: frame.freeze(),
            derived: OnceLock::new(),
        }
    }

    /// The object's JSON.
    pub fn json(&self) -> Bytes {
        self.frame.slice(self.body.clone())
    }

    /// Where the resource version stands in [`Self::json`], its comma included; the stored bytes do not have it.
    pub fn version_range(&self) -> Range<usize> {
        let start = self.metadata.start + 1;
        let end = start + format!("\"resourceVersion\":\"{}\"", self.revision).len();
        let comma = usize::from(self.frame[end] == b',');
        start - self.body.start..end + comma - self.body.start
    }

    pub fn metadata_json(&self) -> &[u8] {
        &self.frame[self.metadata.clone()]
    }

    /// The whole watch frame when this version was made by an event of that type.
    pub fn frame(&self, event: EventType) -> Option<Bytes> {
        (self.born == event).then(|| self.frame.clone())
    }

    /// Appends a watch frame of any type.
    pub fn write_frame(&self, event: EventType, out: &mut BytesMut) {
        out.extend_from_slice(event.frame_head());
        out.extend_from_slice(&self.frame[self.body.clone()]);
        out.extend_from_slice(FRAME_TAIL);
    }

    /// The header was read as JSON before; the rest may still be nested too deeply to be built.
    pub fn value(&self) -> Result<Value, Unreadable> {
        Ok(serde_json::from_slice(&self.frame[self.body.clone()])?)
    }

    /// Bytes of memory that this version holds, roughly.
    pub fn weight(&self) -> usize {
        self.frame.len() + 256
    }

    /// `namespace/name`, or the name alone: the end of the store key.
    pub fn path(&self) -> String {
        match &*self.namespace {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Computes once per version, from null for what cannot be read. One kind uses one type.
    pub fn derived<T: Send + Sync + 'static>(&self, compute: impl FnOnce(&Value) -> T) -> &T {
        self.derived_by(|| compute(&self.value().unwrap_or_default()))
    }

    /// As [`Self::derived`], of something that is not read from the object.
    pub fn derived_by<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> T) -> &T {
        self.derived.get_or_init(|| Box::new(compute())).downcast_ref().expect("one kind derives one type")
    }
}

fn read_fields(bytes: &[u8], selectable: &[Selectable]) -> Result<Box<[Box<str>]>, serde_json::Error> {
    let mut found: Vec<Option<Box<str>>> = vec![None; selectable.len()];
    if !selectable.is_empty() {
        let wanted: Vec<(&str, usize)> = selectable.iter().enumerate().map(|(i, s)| (&*s.path, i)).collect();
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        Walk { wanted: &wanted, found: &mut found }.deserialize(&mut deserializer)?;
    }
    Ok(found.into_iter().zip(selectable).map(|(value, field)| value.unwrap_or_else(|| field.default.into())).collect())
}

/// Walks JSON objects along a few dotted paths and skips everything else without building it.
struct Walk<'a> {
    wanted: &'a [(&'a str, usize)],
    found: &'a mut Vec<Option<Box<str>>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Walk<'_> {
    fn leaf(self, text: &str) {
        for (path, slot) in self.wanted {
            if path.is_empty() {
                self.found[*slot] = Some(text.into());
            }
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let below: Vec<(&str, usize)> = self
                .wanted
                .iter()
                .filter_map(|(path, slot)| {
                    let rest = path.strip_prefix(key.as_ref())?;
                    if rest.is_empty() { Some((rest, *slot)) } else { Some((rest.strip_prefix('.')?, *slot)) }
                })
                .collect();
            if below.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Walk { wanted: &below, found: self.found })?;
            }
        }
        Ok(())
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.leaf(text);
        Ok(())
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.leaf(if value { "true" } else { "false" });
        Ok(())
    }
    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }
    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }
    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FIELDS: &[Selectable] = &[
        Selectable::path("spec.nodeName"),
        Selectable::or("spec.unschedulable", "false"),
        Selectable::path("status.n"),
    ];

    fn parse(text: &str) -> Object {
        Object::parse(text.as_bytes(), 7, EventType::Added, FIELDS).unwrap()
    }

    #[test]
    fn the_revision_is_spliced_into_metadata_only() {
        let rows = [
            (
                r#"{"kind":"A","metadata":{"name":"x"}}"#,
                json!({"kind":"A","metadata":{"name":"x","resourceVersion":"7"}}),
            ),
            (
                r#"{"metadata":{ },"spec":{"metadata":{}}}"#,
                json!({"metadata":{"resourceVersion":"7"},"spec":{"metadata":{}}}),
            ),
            (
                r#"{"spec":{"metadata":{"a":1}},"metadata" : {"name":"é\"}"}}"#,
                json!({"metadata":{"resourceVersion":"7","name":"é\"}"},"spec":{"metadata":{"a":1}}}),
            ),
        ];
        for (stored, expect) in rows {
            let object = parse(stored);
            assert_eq!(object.value().unwrap(), expect);
            assert_eq!(serde_json::from_slice::<Value>(&with_revision(stored.as_bytes(), 7).unwrap()).unwrap(), expect);
            assert_eq!(serde_json::from_slice::<Value>(object.metadata_json()).unwrap(), expect["metadata"]);
            let frame: Value = serde_json::from_slice(&object.frame(EventType::Added).unwrap()).unwrap();
            assert_eq!(frame, json!({"type": "ADDED", "object": expect}));
            let mut text = String::from_utf8(object.json().to_vec()).unwrap();
            text.replace_range(object.version_range(), "");
            assert_eq!(text, stored, "without the version it is what is stored");
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_an_error_and_no_panic() {
        let deep = format!(r#"{{"metadata":{{"name":"x"}},"data":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let object = parse(&deep);
        assert!(object.value().is_err());
        assert!(*object.derived(Value::is_null));
    }

    #[test]
    fn the_header_and_fields_are_read() {
        let object = parse(
            r#"{"spec":{"nodeName":"n1","x":{"nodeName":"no"}},"status":{"n":3},
                "metadata":{"name":"a","namespace":"b","uid":"u","labels":{"k":"v"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#,
        );
        assert_eq!((&*object.namespace, &*object.name, &*object.uid, object.deleting), ("b", "a", "u", true));
        assert_eq!(object.labels["k"], "v");
        assert_eq!(object.fields.iter().map(|f| &**f).collect::<Vec<_>>(), ["n1", "false", "3"]);
    }

    #[test]
    fn a_deletion_carries_the_last_state_at_the_new_revision() {
        let gone = parse(r#"{"metadata":{"name":"x"},"data":{"a":"b"}}"#).reborn(12_345, EventType::Deleted);
        let expect = json!({"metadata":{"name":"x","resourceVersion":"12345"},"data":{"a":"b"}});
        assert_eq!(gone.value().unwrap(), expect);
        assert_eq!(serde_json::from_slice::<Value>(gone.metadata_json()).unwrap(), expect["metadata"]);
        assert!(gone.frame(EventType::Added).is_none());
        let again = gone.reborn(2, EventType::Modified);
        assert_eq!(again.value().unwrap()["metadata"]["resourceVersion"], "2");
    }
}
