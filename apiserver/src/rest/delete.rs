//! Delete one object or a selection. Decides between deleting at once, gracefully, or waiting for finalizers.

use super::call::Call;
use super::commit::{Commit, MAX_TRIES, Verdict, commit, is_current};
use super::stored::{Stored, Written};
use super::update::ends_deletion;
use crate::admission::{self, Attributes, Operation};
use crate::cache::Selection;
use crate::effects;
use crate::http::{Outcome, Query};
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// `metav1.DeleteOptions`, from body and query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Option<Preconditions>,
    pub orphan_dependents: Option<bool>,
    pub propagation_policy: Option<String>,
    pub dry_run: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// `body` is decoded JSON, or null when there was none.
    pub fn read(body: Value, query: &Query) -> Outcome<Self> {
        let kind = str_at(&body, "kind");
        if !["", "DeleteOptions"].contains(&kind) {
            return Err(Status::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: it is a {kind}"
            ))
            .into());
        }
        let mut options: Self = match body {
            Value::Null => Self::default(),
            body => {
                serde_json::from_value(body).map_err(|error| Status::bad_request(format!("DeleteOptions: {error}")))?
            }
        };
        if let Some(seconds) = query.number("gracePeriodSeconds")? {
            options.grace_period_seconds = Some(seconds);
        }
        if let Some(policy) = query.get("propagationPolicy") {
            options.propagation_policy = Some(policy.to_owned());
        }
        if query.has("orphanDependents") {
            options.orphan_dependents = Some(query.flag("orphanDependents"));
        }
        if let Some(policy) = &options.propagation_policy
            && !["Foreground", "Background", "Orphan"].contains(&policy.as_str())
        {
            let text = format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {policy:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            return Err(Status::bad_request(text).into());
        }
        if options.propagation_policy.is_some() && options.orphan_dependents.is_some() {
            let text = "propagationPolicy: orphanDependents and deletionPropagation cannot be both set";
            return Err(Status::bad_request(text).into());
        }
        if let Some(value) = options.dry_run.iter().find(|value| *value != "All") {
            let text = format!("dryRun: Unsupported value: {value:?}: supported values: \"All\"");
            return Err(Status::bad_request(text).into());
        }
        Ok(options)
    }

    /// The call with these options' `dryRun` beside the query's.
    pub fn with_dry_run<'b>(&self, call: &'b Call<'_>) -> Call<'b> {
        let mut one = call.on(call.namespace, call.name);
        one.options.dry_run |= !self.dry_run.is_empty();
        one
    }

    fn finalizer(&self) -> Option<&'static str> {
        match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Foreground"), _) => Some(FOREGROUND),
            (Some("Orphan"), _) | (None, Some(true)) => Some(ORPHAN),
            _ => None,
        }
    }

    /// Whether the client chose what happens to dependents.
    fn chooses(&self) -> bool {
        self.propagation_policy.is_some() || self.orphan_dependents.is_some()
    }
}

pub async fn delete(call: &Call<'_>, options: &DeleteOptions) -> Outcome<Written> {
    let kind = call.kind();
    let mut cached =
        call.served.resource.get(&call.path(call.name)).and_then(|object| Stored::from_cache(&object).ok());
    let mut fresh = None;
    for attempt in 0..MAX_TRIES {
        let from_cache = cached.is_some();
        let old = match (cached.take(), fresh.take()) {
            (Some(stored), _) | (None, Some(stored)) => stored,
            (None, None) => call.live().await?.ok_or_else(|| call.not_found())?,
        };
        match attempt_once(call, options, &old, attempt).await {
            Err(_) if from_cache => continue,
            Err(failure) => return Err(failure),
            Ok(Attempt::Written(written)) => return Ok(written),
            Ok(Attempt::Lost(Some(Some(now)))) => fresh = Some(now),
            Ok(Attempt::Lost(Some(None))) => return Err(call.not_found().into()),
            Ok(Attempt::Lost(None)) => fresh = Some(old),
        }
    }
    Err(Status::conflict(&kind.resource(), call.name).into())
}

enum Attempt {
    Written(Written),
    Lost(Option<Option<Stored>>),
}

async fn attempt_once(call: &Call<'_>, options: &DeleteOptions, old: &Stored, attempt: u32) -> Outcome<Attempt> {
    preconditions(call, options, old)?;
    let attributes = Attributes { call, operation: Operation::Delete, name: call.name, old: Some(&old.value) };
    for plugin in &call.core.admission {
        plugin.validate(&attributes, &old.value)?;
    }
    admission::validate_outside(&attributes, None).await?;
    let strategy = call.served.strategy();
    let grace = strategy.grace_period(&old.value, options.grace_period_seconds).unwrap_or(0).max(0);
    let new = mark(&old.value, options, grace, call.now, strategy.held_by());
    let key = call.key(call.name);
    let deleted = ends_deletion(&new);
    if !deleted && new == old.value {
        return unchanged(call, key, old).await;
    }
    let effects =
        if deleted { effects::of_delete(call, &old.value, attempt).await? } else { effects::Effects::default() };
    let object = (!deleted).then_some(&new);
    Ok(match commit(call, Commit { key, compare: Some(old.revision), object, effects }).await? {
        Verdict::Done { revision, .. } => {
            let last = if deleted { &old.value } else { &new };
            let bytes = serde_json::to_vec(last).map_err(Status::internal)?.into();
            Attempt::Written(Written { bytes, revision, created: false, deleted })
        }
        Verdict::Changed(now) => Attempt::Lost(now),
    })
}

/// It is ending already as this delete asks: the answer, when the store still has this version.
async fn unchanged(call: &Call<'_>, key: String, old: &Stored) -> Outcome<Attempt> {
    Ok(match is_current(call, key, old.revision).await? {
        Verdict::Done { .. } => {
            let bytes = serde_json::to_vec(&old.value).map_err(Status::internal)?.into();
            Attempt::Written(Written { bytes, revision: old.revision, created: false, deleted: false })
        }
        Verdict::Changed(now) => Attempt::Lost(now),
    })
}

/// The object as the deletion leaves it, if it stays.
fn mark(old: &Value, options: &DeleteOptions, grace: i64, now: Timestamp, held_by: Option<&str>) -> Value {
    let mut new = old.clone();
    let already = at(old, "metadata.deletionTimestamp").is_some();
    if options.chooses() && !(already && options.finalizer().is_none()) {
        let mut finalizers: Vec<Value> =
            items(old, "metadata.finalizers").iter().filter(|f| *f != FOREGROUND && *f != ORPHAN).cloned().collect();
        finalizers.extend(options.finalizer().map(Value::from));
        new["metadata"]["finalizers"] = finalizers.into();
        super::meta::tidy(&mut new);
    }
    if !already && let Some(holder) = held_by {
        let mut finalizers = items(&new, "metadata.finalizers").to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == holder) {
            finalizers.push(holder.into());
        }
        new["metadata"]["finalizers"] = finalizers.into();
    }
    let ends = match (already, i64_at(old, "metadata.deletionGracePeriodSeconds")) {
        (false, _) => now.add_secs(grace),
        // A second delete may only shorten the time that is left, and only when it names one.
        (true, Some(before)) if grace < before && options.grace_period_seconds.is_some() => {
            let ends = Timestamp::parse(str_at(old, "metadata.deletionTimestamp")).unwrap_or(now);
            ends.add_secs(grace - before).max(now)
        }
        (true, _) => return new,
    };
    new["metadata"]["deletionTimestamp"] = ends.to_string().into();
    new["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    if !already && new["metadata"]["generation"].is_i64() {
        super::meta::bump_generation(&mut new);
    }
    if str_at(&new, "kind") == "Namespace" && !ends_deletion(&new) {
        new["status"]["phase"] = "Terminating".into();
    }
    new
}

fn preconditions(call: &Call<'_>, options: &DeleteOptions, old: &Stored) -> Outcome<()> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let refuse = |what: &str, given: &str, current: &str| {
        let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {current}");
        Status::conflict_because(&call.kind().resource(), call.name, &why)
    };
    let (uid, version) = (str_at(&old.value, "metadata.uid"), old.revision.to_string());
    match (&wanted.uid, &wanted.resource_version) {
        (Some(given), _) if given != uid => Err(refuse("UID", given, uid).into()),
        (_, Some(given)) if *given != version => Err(refuse("ResourceVersion", given, &version).into()),
        _ => Ok(()),
    }
}

/// Deletes everything that matches; returns the last states.
pub async fn delete_collection(
    call: &Call<'_>,
    selection: &Selection,
    options: &DeleteOptions,
) -> Outcome<Vec<Written>> {
    let revision = call.served.group.store.read_revision().await.map_err(crate::core::store_failure)?;
    call.served.group.wait_for(revision.0).await.map_err(|behind| Status::timeout(&behind.to_string(), 1))?;
    let snapshot = call.served.resource.snapshot_for(selection);
    let mut written = Vec::new();
    for object in selection.select(&snapshot.tree, call.kind().namespaced) {
        let one = call.on(&object.namespace, &object.name);
        match delete(&one, options).await {
            Ok(done) => written.push(done),
            Err(status) if status.code() == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_second_delete_shortens_only_when_it_says_so() {
        let now = Timestamp::parse("2026-01-01T00:00:20Z").unwrap();
        // Marked at 00:00:00 with a minute of grace.
        let old = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 60}});
        let check = |asked: Option<i64>, ends: &str, seconds: i64| {
            let options = DeleteOptions { grace_period_seconds: asked, ..DeleteOptions::default() };
            let new = mark(&old, &options, asked.unwrap_or(30), now, None);
            let expect = json!({"deletionTimestamp": ends, "deletionGracePeriodSeconds": seconds});
            assert_eq!(new["metadata"], expect, "{asked:?}");
        };
        check(None, "2026-01-01T00:01:00Z", 60);
        check(Some(90), "2026-01-01T00:01:00Z", 60);
        check(Some(30), "2026-01-01T00:00:30Z", 30);
        // Its time would have been over before it was asked for.
        check(Some(5), "2026-01-01T00:00:20Z", 5);
    }
}
