//! Update, and everything that reads, changes and writes back: patches, status, scale, finalize. Decides the gates of a changed
//! object, what a stale version answers, and when an update is the end of a deletion.

use super::call::Call;
use super::commit::{Commit, Verdict, commit, is_current};
use super::create::{check, create};
use super::stored::{Stored, Written};
use super::{meta, ownership};
use crate::admission::{self, Attributes, Operation};
use crate::auth::authz;
use crate::auth::rbac::escalation;
use crate::effects;
use crate::http::Outcome;
use crate::kinds::value::{at, items, object_mut, remove, str_at};
use crate::pipeline::allowed;
use crate::quota::Charge;
use gantry_apimachinery::kinds::DEPLOYMENT;
use gantry_apimachinery::patch::apply::equal_but_times;
use gantry_apimachinery::status::{FieldErrors, Status};
use serde_json::Value;

/// What the caller wants the object to become, given what it is. `old` carries its resource version.
pub type Transform<'a> = dyn Fn(&Value) -> Outcome<Value> + Send + Sync + 'a;

/// A change that names no version has to get through, however many others write; each try costs one transaction. Only the
/// request's time-out ends it earlier.
const TRIES: u32 = 1_000;

/// Applies `transform` to the current object and writes the result, starting over when someone else was first. The result may carry
/// a `metadata.resourceVersion` or `metadata.uid`; then only that version or that object is changed.
pub async fn update(call: &Call<'_>, transform: &Transform<'_>) -> Outcome<Written> {
    let (kind, name) = (call.kind(), call.name);
    let mut cached = call.served.resource.get(&call.path(name)).and_then(|object| Stored::from_cache(&object).ok());
    let mut fresh = None;
    // Races that the object's own key did not lose.
    let mut beside = 0;
    for _ in 0..TRIES {
        let from_cache = cached.is_some();
        let mut old = match (cached.take(), fresh.take()) {
            (Some(stored), _) | (None, Some(stored)) => stored,
            (None, None) => call.live().await?.ok_or_else(|| call.not_found())?,
        };
        let outcome = attempt_once(call, transform, &mut old, beside).await;
        match outcome {
            // Refused by what may be an old copy: look again at the store's.
            Err(_) if from_cache => continue,
            Err(failure) => return Err(failure),
            Ok(Attempt::Written(written)) => return Ok(written),
            Ok(Attempt::Lost(Some(Some(now)))) => fresh = Some(now),
            Ok(Attempt::Lost(Some(None))) => return Err(call.not_found().into()),
            Ok(Attempt::Lost(None)) => {
                beside += 1;
                fresh = Some(old);
            }
        }
    }
    Err(Status::conflict(&kind.resource(), name).into())
}

enum Attempt {
    Written(Written),
    Lost(Option<Option<Stored>>),
}

async fn attempt_once(
    call: &Call<'_>,
    transform: &Transform<'_>,
    stored: &mut Stored,
    attempt: u32,
) -> Outcome<Attempt> {
    let stale = call.served.is_stored_differently(&stored.value);
    let mut opened;
    // Kinds that are stored as they are seen, nearly all, are not copied.
    let old = match call.served.conversion {
        None => stored,
        Some(_) => {
            opened = call.served.open(stored.clone()).await?;
            &mut opened
        }
    };
    let mut new = old.seen(transform)?;
    let old = &*old;
    preconditions(call, &new, old)?;
    meta::settle_namespace(&mut new, call)?;
    settle_parts(call, &mut new, &old.value);
    meta::prepare_update(&mut new, &old.value);
    let attributes = Attributes { call, operation: Operation::Update, name: call.name, old: Some(&old.value) };
    let strategy = call.served.strategy();
    for plugin in &call.core.admission {
        plugin.mutate(&attributes, &mut new)?;
    }
    strategy.defaults(&mut new);
    if admission::mutate_outside(&attributes, &mut new).await? {
        strategy.defaults(&mut new);
    }
    // What is written is what is checked, whoever changed it on the way.
    escalation::check(call, &new, Some(&old.value)).await?;
    strategy.prepare_update(&mut new, &old.value, &call.ctx());
    if call.served.has_generation && call.subresource != Some("status") && strategy.bumps_generation(&new, &old.value) {
        meta::bump_generation(&mut new);
    }
    check(call, &new, Some(&old.value), call.name)?;
    for plugin in &call.core.admission {
        plugin.validate(&attributes, &new)?;
    }
    admission::validate_outside(&attributes, Some(&new)).await?;
    meta::tidy(&mut new);
    ownership::track(call, Some(&old.value), &mut new);
    if equal_but_times(&new, &old.value) && !ends_deletion(&new) && !stale {
        return match is_current(call, call.key(call.name), old.revision).await? {
            Verdict::Done { .. } => {
                let bytes = serde_json::to_vec(&old.value).map_err(Status::internal)?.into();
                Ok(Attempt::Written(Written { bytes, revision: old.revision, created: false, deleted: false }))
            }
            Verdict::Changed(now) => Ok(Attempt::Lost(now)),
        };
    }
    write(call, new, old, attempt).await
}

async fn write(call: &Call<'_>, mut new: Value, old: &Stored, attempt: u32) -> Outcome<Attempt> {
    let key = call.key(call.name);
    let deleted = ends_deletion(&new);
    let mut charge = None;
    let effects = if deleted {
        effects::of_delete(call, &old.value, attempt).await?
    } else {
        let taken = charge.insert(Charge::take(call, &new, Some(&old.value), call.name).await?);
        let effects = effects::of(call, &mut new, Some(&old.value), attempt).await;
        let mut effects = effects.inspect_err(|_| taken.give_back(call))?;
        taken.hold(call, &mut effects);
        effects
    };
    let object = (!deleted).then_some(&new);
    let verdict = commit(call, Commit { key, compare: Some(old.revision), object, effects }).await;
    if let Some(charge) = charge.filter(|_| !matches!(verdict, Ok(Verdict::Done { .. }))) {
        charge.give_back(call);
    }
    Ok(match verdict? {
        Verdict::Done { revision, bytes } => {
            let bytes = if deleted { serde_json::to_vec(&new).map_err(Status::internal)?.into() } else { bytes };
            Attempt::Written(Written { bytes, revision, created: false, deleted })
        }
        Verdict::Changed(now) => Attempt::Lost(now),
    })
}

/// The version and the object that the client meant.
fn preconditions(call: &Call<'_>, new: &Value, old: &Stored) -> Outcome<()> {
    let (resource, name) = (call.kind().resource(), call.name);
    let version = str_at(new, "metadata.resourceVersion");
    if !version.is_empty() && version != "0" && version != old.revision.to_string() {
        if version.parse::<u64>().is_err() {
            return Err(Status::bad_request(format!(
                "metadata.resourceVersion: Invalid value: {version:?}: must be a number"
            ))
            .into());
        }
        return Err(Status::conflict(&resource, name).into());
    }
    let given_name = str_at(new, "metadata.name");
    if !given_name.is_empty() && given_name != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given_name}) does not match the name on the URL ({name})"
        ))
        .into());
    }
    let (uid, current) = (str_at(new, "metadata.uid"), str_at(&old.value, "metadata.uid"));
    if !uid.is_empty() && uid != current {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {current}");
        return Err(Status::conflict_because(&resource, name, &why).into());
    }
    Ok(())
}

/// A status write (an approval is one) changes the status, labels and annotations, as Kubernetes' status strategies do: of a custom
/// resource the status alone, of a Deployment no labels. Any other write leaves the status alone.
fn settle_parts(call: &Call<'_>, new: &mut Value, old: &Value) {
    if matches!(call.subresource, Some("status" | "approval")) {
        restore(new, old, &["status", "metadata"]);
        let written: &[&str] = match call.served.as_custom() {
            Some(_) => &["managedFields"],
            None if call.kind() == &DEPLOYMENT => &["annotations", "managedFields"],
            None => &["labels", "annotations", "managedFields"],
        };
        restore(&mut new["metadata"], &old["metadata"], written);
        if call.subresource == Some("approval") {
            keep(new, old, "status");
        }
        keep(&mut new["metadata"], &old["metadata"], "managedFields");
    } else if call.kind().has_status() {
        restore_field(new, old, "status");
    }
}

/// Makes every field but these what it was.
fn restore(new: &mut Value, old: &Value, but: &[&str]) {
    let Some(old) = old.as_object() else { return };
    object_mut(new).retain(|field, _| but.contains(&field.as_str()) || old.contains_key(field));
    for (field, was) in old.iter().filter(|(field, _)| !but.contains(&field.as_str())) {
        if new.get(field) != Some(was) {
            new[field.as_str()] = was.clone();
        }
    }
}

fn restore_field(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(was) if new.get(field) == Some(was) => {}
        Some(was) => new[field] = was.clone(),
        None => {
            remove(new, field);
        }
    }
}

/// What it was, unless it is given.
fn keep(new: &mut Value, old: &Value, field: &str) {
    if new.get(field).is_none()
        && let Some(was) = old.get(field)
    {
        new[field] = was.clone();
    }
}

/// The object is being deleted, its grace is over and nobody holds it any more.
pub fn ends_deletion(object: &Value) -> bool {
    at(object, "metadata.deletionTimestamp").is_some()
        && items(object, "metadata.finalizers").is_empty()
        && at(object, "metadata.deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
        && (str_at(object, "kind") != "Namespace" || items(object, "spec.finalizers").is_empty())
}

/// Kinds that are only replaced by someone who knows which version is replaced (Kubernetes' `AllowUnconditionalUpdate`).
const VERSIONED_UPDATE: [&str; 9] = [
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "mutatingwebhookconfigurations",
    "poddisruptionbudgets",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
];

fn unversioned(call: &Call<'_>) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid("metadata.resourceVersion", 0, "must be specified for an update");
    Status::invalid(&call.kind().resource(), call.name, &errors)
}

/// PUT: the whole object. Kinds that may be created by an update are made when absent (Kubernetes' `AllowCreateOnUpdate`).
pub async fn replace(call: &Call<'_>, body: Value) -> Outcome<Written> {
    const CREATED_BY_UPDATE: [&str; 11] = [
        "clusterrolebindings",
        "clusterroles",
        "endpoints",
        "endpointslices",
        "events",
        "leases",
        "limitranges",
        "podtemplates",
        "rolebindings",
        "roles",
        "runtimeclasses",
    ];
    let creatable = CREATED_BY_UPDATE.contains(&call.kind().plural) && call.subresource.is_none();
    let name = str_at(&body, "metadata.name");
    if name.is_empty() {
        return Err(Status::bad_request("name must be provided").into());
    }
    let named =
        !str_at(&body, "metadata.resourceVersion").is_empty() || !VERSIONED_UPDATE.contains(&call.kind().plural);
    let outcome = update(call, &|_| if named { Ok(body.clone()) } else { Err(unversioned(call).into()) }).await;
    match outcome {
        Err(status) if creatable && status.code() == 404 && str_at(&body, "metadata.resourceVersion").is_empty() => {
            let (group, resource) = (call.kind().group, call.kind().plural);
            let what = authz::Attributes {
                verb: "create",
                group,
                resource,
                namespace: call.namespace,
                name: call.name,
                ..authz::Attributes::default()
            };
            allowed(call.core, call.user, &what).await?;
            create(call, body).await
        }
        outcome => outcome,
    }
}
