//! One served version of a custom resource: its rules, made once when its definition changes.
//!
//! It decides how objects of other versions become its own and how its own are stored; what a field must look like is
//! `apimachinery::structural`'s.

use super::definition::Definition;
use super::printer::Printer;
use super::webhook::Webhook;
use crate::cache::Group;
use crate::http::Outcome;
use crate::kinds::value::{differs_outside, str_at};
use crate::kinds::{Ctx, Strategy};
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::schema::decode::Decoded;
use gantry_apimachinery::schema::{Schema, Type};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::structural::Structural;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where `spec.replicas` and its relatives stand in objects with a scale subresource, dotted.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec: String,
    pub status: String,
    pub selector: Option<String>,
}

#[derive(Debug)]
pub struct Version {
    /// No other version of any definition has it.
    pub serial: u64,
    pub kind: &'static Kind,
    /// The `apiVersion` that objects are stored with.
    pub storage: String,
    pub printer: Printer,
    pub scale: Option<ScalePaths>,
    /// As the definition has it, for OpenAPI.
    pub open_api: Value,
    /// Its objects are ending; no new ones are made.
    pub terminating: bool,
    /// Of a version that is going away: what its users are told.
    pub deprecation: Option<String>,
    own: String,
    /// Other versions may be in the store.
    several: bool,
    structural: Option<Structural>,
    schema: Option<Schema>,
    webhook: Option<Webhook>,
}

impl Version {
    pub fn read(
        definition: &Definition<'_>,
        version: &Value,
        storage: &Value,
        stored: &[String],
        group: &Arc<Group>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let kind = definition.kind(version);
        let open_api = version["schema"]["openAPIV3Schema"].clone();
        // It was valid when it was written; should this server know better, objects are kept as they are.
        let structural = Structural::parse(&open_api, "", &mut FieldErrors::new());
        let schema = structural.as_ref().map(|rules| rules.schema(kind.group, kind.version, kind.kind));
        let own = kind.api_version();
        let scale = &version["subresources"]["scale"];
        let path = |field: &str| str_at(scale, field).trim_start_matches('.').to_owned();
        Self {
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
            kind,
            storage: format!("{}/{}", kind.group, str_at(storage, "name")),
            printer: Printer::read(version),
            scale: scale.is_object().then(|| ScalePaths {
                spec: path("specReplicasPath"),
                status: path("statusReplicasPath"),
                selector: Some(path("labelSelectorPath")).filter(|path| !path.is_empty()),
            }),
            open_api,
            terminating: definition.is_terminating(),
            deprecation: deprecation(version, kind),
            several: stored.iter().any(|name| *name != kind.version) || str_at(storage, "name") != kind.version,
            own,
            structural,
            schema,
            webhook: Webhook::read(definition.object, group),
        }
    }

    pub fn schema(&self) -> Type<'_> {
        let Kind { group, version, kind, .. } = self.kind;
        self.schema.as_ref().and_then(|schema| schema.kind(group, version, kind)).unwrap_or_else(|| Type::any())
    }

    pub fn changes_what_is_stored(&self) -> bool {
        self.several || self.structural.as_ref().is_some_and(Structural::has_defaults)
    }

    /// A client's object without what the schema does not have.
    pub fn pruned(&self, mut decoded: Decoded) -> Decoded {
        whole_numbers(&mut decoded.object);
        if let Some(structural) = &self.structural {
            decoded.unknown.extend(structural.prune(&mut decoded.object));
        }
        decoded
    }

    /// Stored objects as this version has them.
    pub async fn read_all(&self, stored: Vec<Value>) -> Outcome<Vec<Value>> {
        let mut objects = self.converted(stored, &self.own).await?;
        if let Some(structural) = &self.structural {
            objects.iter_mut().for_each(|object| {
                structural.default(object);
            });
        }
        Ok(objects)
    }

    /// The stored form of this version's object, when it differs.
    pub async fn write(&self, object: &Value) -> Outcome<Option<Value>> {
        if self.own == self.storage {
            return Ok(None);
        }
        Ok(self.converted(vec![object.clone()], &self.storage).await?.pop())
    }

    async fn converted(&self, mut objects: Vec<Value>, to: &str) -> Outcome<Vec<Value>> {
        match &self.webhook {
            Some(webhook) => webhook.convert(objects, to).await,
            None => {
                for object in &mut objects {
                    object["apiVersion"] = to.into();
                }
                Ok(objects)
            }
        }
    }
}

fn deprecation(version: &Value, kind: &Kind) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let text = version["deprecationWarning"].as_str().map(str::to_owned);
    Some(text.unwrap_or_else(|| format!("{} {} is deprecated", kind.api_version(), kind.kind)))
}

impl Strategy for Version {
    fn defaults(&self, object: &mut Value) {
        if let Some(structural) = &self.structural {
            structural.default(object);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(structural) = &self.structural {
            structural.validate(new, old, errors);
        }
    }

    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        self.deprecation.iter().cloned().collect()
    }

    /// Without a status of its own, everything but metadata is the spec.
    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let except: &[&str] = if self.kind.has_status() { &["metadata", "status"] } else { &["metadata"] };
        differs_outside(new, old, except)
    }
}

/// `4.0` and `4e0` are 4, as everything that went through Go's JSON is: a client that reads an integer could not read the object.
fn whole_numbers(value: &mut Value) {
    /// Beyond it a double is no exact integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() <= EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and in the range")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
