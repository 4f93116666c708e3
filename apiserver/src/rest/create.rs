//! Create. Decides the order of the gates for a new object and what a taken name answers.

use super::call::Call;
use super::commit::{Commit, Verdict, commit};
use super::stored::Written;
use super::{meta, ownership};
use crate::admission::{self, Attributes, Operation};
use crate::auth::rbac::escalation;
use crate::effects;
use crate::http::Outcome;
use crate::kinds::unattended;
use crate::kinds::value::{object_mut, remove, str_at};
use crate::quota::Charge;
use gantry_apimachinery::kinds::NODE;
use gantry_apimachinery::names;
use gantry_apimachinery::status::{FieldErrors, Reason, Status};
use serde_json::Value;

/// Names tried for one `generateName`.
const NAME_TRIES: u64 = 8;

/// Makes a new object out of a decoded body.
pub async fn create(call: &Call<'_>, mut object: Value) -> Outcome<Written> {
    if call.served.as_custom().is_some_and(|version| version.terminating) {
        let text = "create not allowed while custom resource definition is terminating";
        return Err(Status::failure(Reason::MethodNotAllowed, text, None).into());
    }
    object_mut(&mut object["metadata"]);
    meta::settle_namespace(&mut object, call)?;
    let given = str_at(&object, "metadata.name").to_owned();
    let base = str_at(&object, "metadata.generateName").to_owned();
    if !call.name.is_empty() && !given.is_empty() && given != call.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            call.name
        ))
        .into());
    }
    let fixed = if given.is_empty() { call.name.to_owned() } else { given };
    if !fixed.is_empty() {
        return make(call, object, &fixed).await;
    }
    if base.is_empty() {
        let mut errors = FieldErrors::new();
        errors.required_because("metadata.name", "name or generateName is required");
        return Err(Status::invalid(&call.kind().qualified_kind(), "", &errors).into());
    }
    for attempt in 0..NAME_TRIES {
        let name = names::generate(&base, call.entropy.wrapping_add(attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        match make(call, object.clone(), &name).await {
            Err(status) if status.reason == gantry_apimachinery::status::Reason::AlreadyExists => {}
            outcome => return outcome,
        }
    }
    Err(Status::generate_name_conflict(&call.kind().resource(), &base).into())
}

async fn make(call: &Call<'_>, mut object: Value, name: &str) -> Outcome<Written> {
    let kind = call.kind();
    let strategy = call.served.strategy();
    meta::prepare_create(&mut object, name, call)?;
    // A machine tells what it has as it comes.
    if kind.has_status() && kind != &NODE {
        remove(&mut object, "status");
    }
    let attributes = Attributes { call, operation: Operation::Create, name, old: None };
    for plugin in &call.core.admission {
        plugin.mutate(&attributes, &mut object)?;
    }
    strategy.defaults(&mut object);
    if admission::mutate_outside(&attributes, &mut object).await? {
        strategy.defaults(&mut object);
    }
    // What is written is what is checked, whoever changed it on the way.
    escalation::check(call, &object, None).await?;
    strategy.prepare_create(&mut object, &call.ctx());
    check(call, &object, None, name)?;
    for plugin in &call.core.admission {
        plugin.validate(&attributes, &object)?;
    }
    admission::validate_outside(&attributes, Some(&object)).await?;
    meta::tidy(&mut object);
    ownership::track(call, None, &mut object);
    let mut charge = Charge::take(call, &object, None, name).await?;
    let stored = store(call, &mut object, name, &mut charge).await;
    if stored.is_err() {
        charge.give_back(call);
    }
    stored
}

async fn store(call: &Call<'_>, object: &mut Value, name: &str, charge: &mut Charge) -> Outcome<Written> {
    let kind = call.kind();
    let mut attempt = 0;
    loop {
        let mut copy = effects::fills_in(kind).then(|| object.clone());
        let object = copy.as_mut().unwrap_or(&mut *object);
        let mut effects = effects::of(call, object, None, attempt).await?;
        charge.hold(call, &mut effects);
        let step = Commit { key: call.key(name), compare: None, object: Some(object), effects };
        match commit(call, step).await? {
            Verdict::Done { bytes, revision } => return Ok(Written { bytes, revision, created: true, deleted: false }),
            Verdict::Changed(Some(_)) => return Err(Status::already_exists(&kind.resource(), name).into()),
            // An effect's key moved: the object is recomputed against what is there now.
            Verdict::Changed(None) => {
                charge.renew(call, name).await?;
                attempt += 1;
            }
        }
    }
}

/// Metadata rules, the kind's own rules and its warnings.
pub fn check(call: &Call<'_>, new: &Value, old: Option<&Value>, name: &str) -> Outcome<()> {
    let strategy = call.served.strategy();
    let mut errors = FieldErrors::new();
    meta::validate(new, old, call.kind(), &mut errors);
    strategy.validate(new, old, &call.ctx(), &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid(&call.kind().qualified_kind(), name, &errors).into());
    }
    call.warn(strategy.warnings(new, old));
    if old.is_none() {
        call.warn(unattended::warning(call.kind()));
    }
    Ok(())
}
