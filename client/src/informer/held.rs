//! An informer's object with its type forgotten, so that the machinery of all kinds is compiled once, not once a kind.
//! Decides nothing: the typed handles of [`Informer`](super::Informer) put objects in and take the same type out.

use std::any::Any;
use std::sync::Arc;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::de::DeserializeOwned;

use super::Change;

/// What the machinery needs of any object.
pub(super) trait Held: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
}

impl<T: Object + Send + Sync + 'static> Held for T {
    fn meta(&self) -> &ObjectMeta {
        Object::meta(self)
    }
}

pub(super) type Entry = Arc<dyn Held>;

/// From an object's JSON to the form that the informer keeps.
pub(super) type Decode = fn(&str) -> serde_json::Result<Entry>;

pub(super) fn decode<T: Object + DeserializeOwned + Send + Sync + 'static>(text: &str) -> serde_json::Result<Entry> {
    serde_json::from_str::<T>(text).map(|object| Arc::new(object) as Entry)
}

/// The typed form. One informer holds one type, so another one cannot come out.
pub(super) fn typed<T: Send + Sync + 'static>(entry: Entry) -> Arc<T> {
    (entry as Arc<dyn Any + Send + Sync>).downcast().expect("an informer holds objects of its own type only")
}

pub(super) fn typed_ref<T: 'static>(entry: &dyn Held) -> &T {
    (entry as &dyn Any).downcast_ref().expect("an informer holds objects of its own type only")
}

pub(super) fn typed_change<T: Send + Sync + 'static>(change: Change<dyn Held>) -> Change<T> {
    match change {
        Change::Applied { old, new } => Change::Applied { old: old.map(typed), new: typed(new) },
        Change::Deleted(last) => Change::Deleted(typed(last)),
        Change::Resync => Change::Resync,
    }
}
