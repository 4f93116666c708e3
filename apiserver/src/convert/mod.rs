//! Between an object as it is stored and as one version's clients see it. Decides when an object is converted, and that a converted
//! object is kept as long as the version it was made from; what a conversion does is each pair's own.
//!
//! Three forms of an object meet here. **Stored**: in the stored version. **Working**: what rules, admission and patches see; for a
//! custom resource that is the request's version with its defaults, for a built-in kind the stored version. **Wire**: the request's
//! version.

mod autoscaling;
mod events;

use crate::cache::{EventType, Object};
use crate::custom::Version;
use crate::http::Outcome;
use crate::rest::stored::{Stored, Written};
use crate::served::Served;
use bytes::Bytes;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// A kind of the table that is another's face, and the two ways between them.
#[derive(Debug)]
pub struct Pair {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub to_wire: fn(Value) -> Value,
    pub from_wire: fn(Value) -> Value,
    /// The stored kind's name of a field that selects, where names differ.
    pub label: Option<fn(&str) -> String>,
}

static PAIRS: &[Pair] = &[autoscaling::PAIR, events::PAIR];

#[derive(Clone, Debug)]
pub enum Conversion {
    BuiltIn(&'static Pair),
    Custom(Arc<Version>),
}

impl Conversion {
    pub fn built_in(kind: &Kind) -> Option<Self> {
        let same =
            |pair: &&Pair| pair.plural == kind.plural && pair.version == kind.version && pair.group == kind.group;
        PAIRS.iter().find(same).map(Self::BuiltIn)
    }

    /// None when every stored object is already as this version has it.
    pub fn custom(version: &Arc<Version>) -> Option<Self> {
        version.changes_what_is_stored().then(|| Self::Custom(version.clone()))
    }

    /// Tells apart what was converted by which rules.
    fn serial(&self) -> u64 {
        match self {
            Self::BuiltIn(_) => 0,
            Self::Custom(version) => version.serial,
        }
    }
}

/// Versions of one object that were made for readers, by the rules that made them.
#[derive(Default)]
struct Shown(Mutex<Vec<(u64, Arc<Object>)>>);

/// More than this many rules at once do not read the same object.
const MOST_SHOWN: usize = 4;

impl Served {
    /// The working form of what a client sent.
    pub fn from_wire(&self, object: Value) -> Value {
        match &self.conversion {
            Some(Conversion::BuiltIn(pair)) => (pair.from_wire)(object),
            _ => object,
        }
    }

    /// What a patch of this version is applied to.
    pub fn to_wire(&self, working: Value) -> Value {
        match &self.conversion {
            Some(Conversion::BuiltIn(pair)) => (pair.to_wire)(working),
            _ => working,
        }
    }

    /// How the stored kind calls a field that selects.
    pub fn stored_label(&self, label: &str) -> String {
        match &self.conversion {
            Some(Conversion::BuiltIn(Pair { label: Some(rename), .. })) => rename(label),
            _ => label.to_owned(),
        }
    }

    /// The working form of a stored object.
    pub async fn open(&self, stored: Stored) -> Outcome<Stored> {
        let Some(Conversion::Custom(version)) = &self.conversion else { return Ok(stored) };
        let Stored { value, revision } = stored;
        let value =
            version.read_all(vec![value]).await?.pop().ok_or_else(|| Status::internal("no object came back"))?;
        Ok(Stored { value, revision })
    }

    /// The stored form of a working object.
    pub async fn close(&self, working: &Value) -> Outcome<Option<Value>> {
        match self.as_custom() {
            Some(version) => version.write(working).await,
            None => Ok(None),
        }
    }

    /// Whether a write must reach the store although it changes nothing: the object is still stored in an older version.
    pub fn is_stored_differently(&self, stored: &Value) -> bool {
        self.as_custom().is_some_and(|version| stored["apiVersion"] != version.storage.as_str())
    }

    /// Cached objects as clients of this version see them.
    pub async fn show_all(&self, mut objects: Vec<Arc<Object>>) -> Outcome<Vec<Arc<Object>>> {
        let Some(conversion) = &self.conversion else { return Ok(objects) };
        let serial = conversion.serial();
        let mut missing = Vec::new();
        for (at, object) in objects.iter_mut().enumerate() {
            let kept =
                object.derived_by(Shown::default).0.lock().iter().find(|(by, _)| *by == serial).map(|(_, o)| o.clone());
            match kept {
                Some(shown) => *object = shown,
                None => missing.push(at),
            }
        }
        if missing.is_empty() {
            return Ok(objects);
        }
        let stored = missing.iter().map(|at| Stored::from_cache(&objects[*at]).map(|stored| stored.value));
        let stored = stored.collect::<Outcome<Vec<Value>>>()?;
        let shown = match conversion {
            Conversion::BuiltIn(pair) => stored.into_iter().map(pair.to_wire).collect(),
            Conversion::Custom(version) => version.read_all(stored).await?,
        };
        for (at, value) in missing.into_iter().zip(shown) {
            let bytes = serde_json::to_vec(&value).map_err(Status::internal)?;
            let original = &objects[at];
            let object = Object::parse(&bytes, original.revision, EventType::Added, &self.resource.selectable);
            let object = Arc::new(object.map_err(Status::internal)?);
            {
                let mut kept = original.derived_by(Shown::default).0.lock();
                kept.push((serial, object.clone()));
                if kept.len() > MOST_SHOWN {
                    kept.remove(0);
                }
            }
            objects[at] = object;
        }
        Ok(objects)
    }

    /// What a write left, as its client gets it.
    pub async fn show_written(&self, written: &Written) -> Outcome<Bytes> {
        if self.conversion.is_none() {
            return written.json();
        }
        let stored = self.open(Stored::read(written.bytes.clone(), written.revision)?).await?;
        let mut value = self.to_wire(stored.value);
        // A dry run has no revision of its own.
        if written.revision > 0 {
            value["metadata"]["resourceVersion"] = written.revision.to_string().into();
        }
        Ok(serde_json::to_vec(&value).map_err(Status::internal)?.into())
    }

    pub async fn show(&self, object: Arc<Object>) -> Outcome<Arc<Object>> {
        if self.conversion.is_none() {
            return Ok(object);
        }
        self.show_all(vec![object]).await?.pop().ok_or_else(|| Status::internal("no object came back").into())
    }
}
