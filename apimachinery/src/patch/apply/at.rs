//! A place in an object together with what the schema says about it.
//!
//! It decides whether a value is owned as one or member by member, and what names its members; it never changes values.

use super::field_set::Step;
use crate::schema::{ListType, Shape, Type};
use serde_json::{Map, Value};

#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    ty: Option<Type<'a>>,
    atomic: bool,
}

impl<'a> At<'a> {
    pub fn root(ty: Type<'a>) -> Self {
        Self { ty: Some(ty), atomic: false }
    }

    /// Unknown fields, and what lies in a value that is owned as one.
    const OPAQUE: At<'a> = At { ty: None, atomic: true };

    /// The member of an object or map.
    pub fn member(self, name: &str) -> Self {
        self.enter(name).0
    }

    /// The member, and whether it is a field of a struct, not a key of a map.
    pub fn enter(self, name: &str) -> (Self, bool) {
        let Some(ty) = self.ty else { return (Self::OPAQUE, false) };
        if let Some(f) = ty.field(name) {
            return (Self { ty: Some(f.ty()), atomic: f.is_atomic() }, true);
        }
        match ty.member(name) {
            // What a schema leaves open is owned member by member, like everything else.
            Some(ty) => (Self { ty: Some(ty), atomic: ty.is_atomic() && ty.shape() != Shape::Any }, false),
            None => (Self::OPAQUE, false),
        }
    }

    /// The items of a list.
    pub fn items(self) -> Self {
        match self.ty.and_then(|t| t.items()) {
            Some(ty) => Self { ty: Some(ty), atomic: ty.is_atomic() },
            None => Self::OPAQUE,
        }
    }

    /// The member, and whether who makes it by an update owns it beside what is in it: a key of a map, and a map or list that may be
    /// left out. A struct, and a list that must be there, are nobody's, as in Kubernetes, where they are there from the start.
    pub fn make(self, name: &str) -> (Self, bool) {
        let (at, named) = self.enter(name);
        let required = || self.ty.and_then(|ty| ty.field(name)).is_some_and(|field| field.required());
        (at, !named || at.is_map() || (at.is_associative() && !required()))
    }

    fn is_map(self) -> bool {
        !self.atomic && self.ty.is_some_and(|t| t.shape() == Shape::Map)
    }

    /// The members, when this is owned member by member.
    pub fn as_map(self, value: &Value) -> Option<&Map<String, Value>> {
        if self.atomic { None } else { value.as_object() }
    }

    /// The items, when this list is owned item by item.
    pub fn as_list(self, value: &Value) -> Option<&Vec<Value>> {
        if self.is_associative() { value.as_array() } else { None }
    }

    pub fn is_associative(self) -> bool {
        !self.atomic && self.ty.is_some_and(|t| t.shape() == Shape::List && t.list_type() != ListType::Atomic)
    }

    /// What tells this item of an associative list apart. An item without its keys is known by its place.
    pub fn step(self, index: usize, item: &Value) -> Step {
        self.key(item).unwrap_or(Step::Index(index))
    }

    /// What tells this item apart, if it has all of its keys.
    pub fn key(self, item: &Value) -> Option<Step> {
        let ty = self.ty?;
        if ty.list_type() == ListType::Set {
            return Some(Step::Value(item.to_string()));
        }
        let items = ty.items()?;
        let mut key = Map::new();
        for name in ty.list_keys() {
            let value = match item.get(name) {
                Some(v) if !v.is_null() => v.clone(),
                _ => default_key(items, name)?,
            };
            key.insert(name.to_owned(), value);
        }
        Some(Step::Key(Value::Object(key).to_string()))
    }

    pub fn key_names(self) -> Vec<&'a str> {
        self.ty.map(|t| t.list_keys().collect()).unwrap_or_default()
    }
}

/// The key's value in an item that leaves it out, if the schema has one.
fn default_key(items: Type<'_>, name: &str) -> Option<Value> {
    items.field(name)?.default_json()
}
