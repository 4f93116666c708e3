//! What a ResourceClaim means to the API: its defaults, its rules, that its wish stays, and what `kubectl get` shows. Which devices it
//! gets is the scheduler's.

pub mod rules;
mod status;

use super::columns::{self, Column};
use super::value::{at, items};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct ResourceClaim;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
    Column::AGE,
];

impl Strategy for ResourceClaim {
    fn defaults(&self, object: &mut Value) {
        rules::defaults(&mut object["spec"]);
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        match (old, ctx.is_status()) {
            (Some(old), true) => status::validate(new, old, errors),
            (Some(old), false) if old["spec"] != new["spec"] => errors.immutable("spec", new["spec"].clone()),
            (Some(_), false) => {}
            (None, _) => rules::spec(&new["spec"], "spec", errors),
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), state(object).into(), columns::age(object, now)]
    }
}

fn state(claim: &Value) -> String {
    let deleted = at(claim, "metadata.deletionTimestamp").is_some();
    let allocated = at(claim, "status.allocation").is_some();
    let reserved = allocated && !items(claim, "status.reservedFor").is_empty();
    let words = [
        ("deleted", deleted),
        ("allocated", allocated),
        ("reserved", reserved),
        ("pending", !allocated && !deleted),
    ];
    words.iter().filter(|(_, is)| *is).map(|(word, _)| *word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
