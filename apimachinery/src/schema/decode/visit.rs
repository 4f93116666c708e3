//! Decides, value by value, what the schema allows: one pass over the input builds the object, notes unknown and
//! duplicate paths, and keeps the first type error. It never stops early, so a syntax error always wins.

use super::{DecodeError, Decoded, leaf};
use crate::schema::{Shape, Type};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Kubernetes stops counting there, too.
const MAX_PROBLEMS: usize = 100;

/// What one decoding carries along.
pub(super) struct Walk {
    path: String,
    unknown: Vec<String>,
    duplicate: Vec<String>,
    error: Option<DecodeError>,
}

impl Walk {
    pub(super) fn new() -> Walk {
        Walk { path: String::new(), unknown: vec![], duplicate: vec![], error: None }
    }

    pub(super) fn finish(self, value: Option<Value>) -> Result<Decoded, DecodeError> {
        match self.error {
            Some(error) => Err(error),
            None => {
                let object = value.unwrap_or(Value::Null);
                Ok(Decoded { object, unknown: self.unknown, duplicate: self.duplicate })
            }
        }
    }

    fn enter(&mut self, key: &str) -> usize {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        before
    }

    fn enter_item(&mut self, index: usize) -> usize {
        let before = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        before
    }

    fn note(problems: &mut Vec<String>, path: &str) {
        if problems.len() < MAX_PROBLEMS && !problems.iter().any(|known| known == path) {
            problems.push(path.to_string());
        }
    }

    fn fail(&mut self, message: String) {
        let path = self.path.clone();
        self.error.get_or_insert(DecodeError::Type { path, message });
    }
}

/// Decodes one value of type `ty`; `owner` is the name of the struct it belongs to, for error texts.
pub(super) struct Seed<'w, 's> {
    walk: &'w mut Walk,
    ty: Type<'s>,
    owner: &'s str,
}

impl<'w, 's> Seed<'w, 's> {
    pub(super) fn root(walk: &'w mut Walk, ty: Type<'s>) -> Seed<'w, 's> {
        Seed { walk, ty, owner: "" }
    }

    /// Notes that `got` is not of this type, in the words of Go's decoder plus list positions.
    fn mismatch(self, got: &str) -> Option<Value> {
        let target = self.ty.go_name();
        let message = if self.owner.is_empty() {
            format!("json: cannot unmarshal {got} into Go value of type {target}")
        } else {
            format!(
                "json: cannot unmarshal {got} into Go struct field {}.{} of type {target}",
                self.owner, self.walk.path
            )
        };
        self.walk.fail(message);
        None
    }

    fn number(self, number: Number) -> Option<Value> {
        match leaf::number(self.ty.shape(), &number) {
            Ok(value) => Some(value),
            Err(leaf::Wrong::Type) => self.mismatch("number"),
            Err(leaf::Wrong::Range) => self.mismatch(&format!("number {number}")),
            Err(leaf::Wrong::Format(detail)) => self.malformed(&detail),
        }
    }

    fn text(self, text: String) -> Option<Value> {
        match leaf::text(self.ty.shape(), text) {
            Ok(value) => Some(value),
            Err(leaf::Wrong::Format(detail)) => self.malformed(&detail),
            Err(_) => self.mismatch("string"),
        }
    }

    fn malformed(self, detail: &str) -> Option<Value> {
        let message = format!("{}: {detail}", self.walk.path);
        self.walk.fail(message);
        None
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok((self.ty.shape() == Shape::Any).then_some(Value::Null))
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Option<Value>, E> {
        self.visit_unit()
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(match self.ty.shape() {
            Shape::Bool | Shape::Any | Shape::SchemaOrBool => Some(Value::Bool(value)),
            _ => self.mismatch("bool"),
        })
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(self.number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(self.number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(match Number::from_f64(value) {
            Some(number) => self.number(number),
            None => self.mismatch("number"),
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<Value>, E> {
        Ok(self.text(text.to_string()))
    }

    fn visit_string<E>(self, text: String) -> Result<Option<Value>, E> {
        Ok(self.text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Value>, A::Error> {
        let item_type = match self.ty.shape() {
            Shape::List => self.ty.items().unwrap_or(Type::any()),
            Shape::Any => Type::any(),
            Shape::SchemaOrList | Shape::SchemaOrStrings => Type::any(),
            _ => {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(self.mismatch("array"));
            }
        };
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(64));
        loop {
            let before = self.walk.enter_item(list.len());
            let seed = Seed { walk: &mut *self.walk, ty: item_type, owner: self.owner };
            let item = items.next_element_seed(seed)?;
            self.walk.path.truncate(before);
            match item {
                Some(item) => list.push(item.unwrap_or_else(|| leaf::zero(item_type))),
                None => return Ok(Some(Value::Array(list))),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Option<Value>, A::Error> {
        match self.ty.shape() {
            Shape::Object => self.visit_object(members),
            Shape::Map => {
                let value = self.ty.map_value().unwrap_or(Type::any());
                self.visit_entries(members, value, true)
            }
            Shape::Any | Shape::Raw | Shape::Fields => self.visit_entries(members, Type::any(), false),
            Shape::SchemaOrList | Shape::SchemaOrBool | Shape::SchemaOrStrings => {
                let schema = crate::schema::Schema::builtin()
                    .named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
                Seed { ty: schema.unwrap_or(Type::any()), ..self }.visit_map(members)
            }
            _ => {
                let mut members = members;
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(self.mismatch("object"))
            }
        }
    }
}

impl<'s> Seed<'_, 's> {
    fn visit_object<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<Option<Value>, A::Error> {
        let mut object = Map::new();
        let mut seen_null: Vec<&'s str> = vec![];
        let owner = self.ty.short_name();
        while let Some(key) = members.next_key::<String>()? {
            let before = self.walk.enter(&key);
            match self.ty.field(&key) {
                Some(field) => {
                    if object.contains_key(&key) || seen_null.contains(&field.name()) {
                        Walk::note(&mut self.walk.duplicate, &self.walk.path);
                    }
                    let seed = Seed { walk: &mut *self.walk, ty: field.ty(), owner };
                    match members.next_value_seed(seed)?.filter(|value| !leaf::is_omitted(&field, value)) {
                        Some(value) => drop(object.insert(key, value)),
                        None => {
                            object.remove(&key);
                            seen_null.push(field.name());
                        }
                    }
                }
                None if self.ty.is_preserve_unknown() => {
                    let seed = Seed { walk: &mut *self.walk, ty: Type::any(), owner };
                    let value = members.next_value_seed(seed)?.unwrap_or(Value::Null);
                    object.insert(key, value);
                }
                None => {
                    Walk::note(&mut self.walk.unknown, &self.walk.path);
                    members.next_value::<IgnoredAny>()?;
                }
            }
            self.walk.path.truncate(before);
        }
        Ok(Some(Value::Object(object)))
    }

    fn visit_entries<'de, A: MapAccess<'de>>(
        self,
        mut members: A,
        value_type: Type<'s>,
        strict: bool,
    ) -> Result<Option<Value>, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let before = self.walk.enter(&key);
            if strict && object.contains_key(&key) {
                Walk::note(&mut self.walk.duplicate, &self.walk.path);
            }
            let seed = Seed { walk: &mut *self.walk, ty: value_type, owner: self.owner };
            let value = members.next_value_seed(seed)?;
            self.walk.path.truncate(before);
            object.insert(key, value.unwrap_or_else(|| leaf::zero(value_type)));
        }
        Ok(Some(Value::Object(object)))
    }
}
