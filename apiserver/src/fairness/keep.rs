//! Makes the flow schemas and priority levels that every cluster has and keeps them, deletes those of older versions, tells schemas
//! whose level is missing, and has seats lent. Decides what an object becomes; the writes go through the ordinary path. Any number of
//! servers may do this at once.

use super::defaults::{self, AUTOUPDATE, DefaultObject, same};
use crate::bootstrap::{OwnWrites, identity};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{child, items, str_at};
use crate::rest::call::Call;
use crate::rest::delete::{DeleteOptions, Preconditions, delete};
use crate::rest::update::update;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{StreamExt, TryStreamExt};
use gantry_apimachinery::kinds::{FLOW_SCHEMA, Kind, PRIORITY_LEVEL_CONFIGURATION};
use gantry_apimachinery::status::Status;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DANGLING: &str = "Dangling";
/// How often idle levels' seats are lent anew (as Kubernetes).
const REBALANCE_EVERY: Duration = Duration::from_secs(10);
/// How often specs are put right. Seldom, so that servers of two versions do not quarrel over a suggestion.
const RESTORE_EVERY: u32 = 6;
/// Between two looks at what changed.
const REST: Duration = Duration::from_millis(200);

/// Whether somebody said that the server keeps the object's spec. Kubernetes' spellings of yes and no; anything else says nothing.
fn said(object: &Value) -> Option<bool> {
    match object["metadata"]["annotations"].get(AUTOUPDATE)?.as_str()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// What an object that is there becomes; `None`: it may stay. Of what was never said to be kept, the first generation is kept:
/// nobody has changed it.
pub fn restored(existing: &Value, wanted: &DefaultObject) -> Option<Value> {
    let said = said(existing);
    let kept = wanted.mandatory() || said.unwrap_or_else(|| existing["metadata"]["generation"] == 1);
    let mut new = existing.clone();
    if said != Some(kept) {
        child(child(&mut new, "metadata"), "annotations")[AUTOUPDATE] = kept.to_string().into();
    }
    if kept {
        let mut spec = wanted.spec.clone();
        if spec["type"] == "Exempt" && existing["spec"]["exempt"].is_object() {
            // The shares of the exempt level are the administrator's.
            spec["exempt"] = existing["spec"]["exempt"].clone();
        }
        if !same(&existing["spec"], &spec) {
            new["spec"] = spec;
        }
    }
    (new != *existing).then_some(new)
}

/// Said to be kept by a server that does not suggest it (any more).
pub fn obsolete(kind: &Kind, existing: &Value) -> bool {
    let name = str_at(existing, "metadata.name");
    said(existing) == Some(true) && !defaults::all().iter().any(|one| one.kind == kind && one.name == name)
}

/// A schema with the condition that it has to have; `None`: it has it.
pub fn dangling(schema: &Value, level_is_there: bool, now: &str) -> Option<Value> {
    let level = str_at(schema, "spec.priorityLevelConfiguration.name");
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if level_is_there {
        ("False", "Found", format!("{named} and it exists"))
    } else {
        ("True", "NotFound", format!("{named} but there is no such object"))
    };
    let conditions = items(schema, "status.conditions");
    let existing = conditions.iter().find(|condition| condition["type"] == DANGLING);
    if existing.is_some_and(|old| old["status"] == status && old["message"] == message) {
        return None;
    }
    let since = existing.filter(|old| old["status"] == status).map_or(now, |old| str_at(old, "lastTransitionTime"));
    let condition = json!({
        "type": DANGLING, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    let mut all: Vec<Value> = conditions.iter().filter(|condition| condition["type"] != DANGLING).cloned().collect();
    all.push(condition);
    let mut new = schema.clone();
    child(&mut new, "status")["conditions"] = all.into();
    Some(new)
}

/// Makes what is missing; puts right and clears away what is there if that is asked for.
pub async fn ensure(at: &OwnWrites<'_>, restore: bool) -> Outcome<()> {
    const AT_ONCE: usize = 64;
    if restore {
        clear(at).await?;
    }
    let writes: Vec<BoxFuture<'_, Outcome<()>>> =
        defaults::all().iter().map(|one| ensure_one(at, one, restore).boxed()).collect();
    futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// Deletes what was suggested once.
async fn clear(at: &OwnWrites<'_>) -> Outcome<()> {
    for kind in [&FLOW_SCHEMA, &PRIORITY_LEVEL_CONFIGURATION] {
        let tree = at.core.stored_kind(kind).resource.snapshot().tree;
        for (name, object) in &tree {
            let Ok(value) = object.value() else { continue };
            if !obsolete(kind, &value) {
                continue;
            }
            // Not if somebody has just said otherwise.
            let preconditions = Preconditions { uid: None, resource_version: Some(object.revision.to_string()) };
            let options = DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::default() };
            match delete(&at.call(kind, "", name), &options).await {
                Err(status) if matches!(status.code(), 404 | 409) => {}
                outcome => outcome.map(|_| ())?,
            }
        }
    }
    Ok(())
}

/// A store that does not answer is asked again by the caller; an object that cannot be put right must not keep the server down.
async fn ensure_one(at: &OwnWrites<'_>, one: &DefaultObject, restore: bool) -> Outcome<()> {
    match make_or_restore(at, one, restore).await {
        Err(status) if !matches!(status.code(), 503 | 504) => {
            let (kind, name) = (one.kind.kind, one.name);
            tracing::warn!(kind, name, message = %status.message, "an object of fair queuing is not as it should be");
            Ok(())
        }
        outcome => outcome,
    }
}

async fn make_or_restore(at: &OwnWrites<'_>, one: &DefaultObject, restore: bool) -> Outcome<()> {
    let Some(existing) = at.core.cached(one.kind, "", one.name) else {
        return at.ensure(one.kind, "", one.name, one.object()).await;
    };
    let existing = existing.value().map_err(Status::internal)?;
    if !restore || restored(&existing, one).is_none() {
        return Ok(());
    }
    let transform = |old: &Value| Ok(restored(old, one).unwrap_or_else(|| old.clone()));
    match update(&at.call(one.kind, "", one.name), &transform).await {
        // Deleted meanwhile: made anew in the next round.
        Err(status) if status.code() == 404 => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Writes the condition of every schema that does not have it.
async fn tell_dangling(at: &OwnWrites<'_>) -> Outcome<()> {
    let tree = at.core.stored_kind(&FLOW_SCHEMA).resource.snapshot().tree;
    for (name, object) in &tree {
        let now = at.core.clock.now().to_string();
        let condition = |schema: &Value| {
            let level = str_at(schema, "spec.priorityLevelConfiguration.name");
            let there = at.core.cached(&PRIORITY_LEVEL_CONFIGURATION, "", level).is_some();
            dangling(schema, there, &now)
        };
        let Ok(schema) = object.value() else { continue };
        if condition(&schema).is_none() {
            continue;
        }
        let call = Call { subresource: Some("status"), ..at.call(&FLOW_SCHEMA, "", name) };
        let transform = |old: &Value| Ok(condition(old).unwrap_or_else(|| old.clone()));
        match update(&call, &transform).await {
            Err(status) if status.code() == 404 => {}
            outcome => outcome.map(|_| ())?,
        }
    }
    Ok(())
}

/// Until cancelled.
pub async fn run(core: &Core, cancel: CancellationToken) {
    let user = identity();
    let at = OwnWrites { core, user: &user };
    let mut periods = tokio::time::interval(REBALANCE_EVERY);
    periods.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count = 0;
    loop {
        let restore = tokio::select! {
            () = cancel.cancelled() => return,
            _ = periods.tick() => {
                core.fairness.rebalance();
                count = (count + 1) % RESTORE_EVERY;
                count == 0
            }
            () = core.fairness.changed.notified() => false,
        };
        let settled = async {
            ensure(&at, restore).await?;
            tell_dangling(&at).await
        };
        if let Err(status) = settled.await {
            tracing::warn!(message = %status.message, "flow schemas and priority levels are not as they should be");
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(REST) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str, level: bool) -> &'static DefaultObject {
        let kind = if level { &PRIORITY_LEVEL_CONFIGURATION } else { &FLOW_SCHEMA };
        defaults::all().iter().find(|one| one.kind == kind && one.name == name).unwrap()
    }

    #[test]
    fn suggestions_are_kept_unless_somebody_says_no() {
        let one = find("system", true);
        let changed = |auto: Option<&str>, generation: u32| {
            let mut object = one.object();
            object["spec"]["limited"]["nominalConcurrencyShares"] = 7.into();
            object["metadata"]["generation"] = generation.into();
            object["metadata"]["annotations"] = auto.map_or(Value::Null, |auto| json!({AUTOUPDATE: auto}));
            object
        };
        let check = |auto: Option<&str>, generation: u32, spec_is_restored: bool, annotation: &str| {
            let old = changed(auto, generation);
            let new = restored(&old, one).unwrap_or_else(|| old.clone());
            let spec = if spec_is_restored { &one.spec } else { &old["spec"] };
            let expect = (spec, &json!(annotation));
            assert_eq!((&new["spec"], &new["metadata"]["annotations"][AUTOUPDATE]), expect, "{auto:?} {generation}");
            assert_eq!(restored(&new, one), None, "once is enough");
        };
        check(Some("true"), 2, true, "true");
        check(Some("1"), 2, true, "1");
        check(Some("false"), 1, false, "false");
        check(Some("yes"), 1, true, "true");
        check(Some("yes"), 2, false, "false");
        check(None, 1, true, "true");
        check(None, 2, false, "false");
        assert_eq!(restored(&one.object(), one), None);
    }

    #[test]
    fn what_is_suggested_no_more_goes() {
        let check = |name: &str, auto: Option<&str>, expect: bool| {
            let annotations = auto.map_or(Value::Null, |auto| json!({AUTOUPDATE: auto}));
            let object = json!({"metadata": {"name": name, "annotations": annotations}});
            assert_eq!(obsolete(&FLOW_SCHEMA, &object), expect, "{name} {auto:?}");
        };
        check("old", Some("true"), true);
        check("old", Some("false"), false);
        check("old", Some("odd"), false);
        check("old", None, false);
        check("system-nodes", Some("true"), false);
        check("system", Some("true"), true);
    }

    #[test]
    fn what_is_mandatory_is_kept_but_for_the_shares_of_the_exempt() {
        let schema = find("catch-all", false);
        let mut object = schema.object();
        object["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(restored(&object, schema).map(|new| new["spec"] == schema.spec), Some(true));
        let exempt = find("exempt", true);
        let mut object = exempt.object();
        object["spec"]["exempt"]["nominalConcurrencyShares"] = 9.into();
        assert_eq!(restored(&object, exempt), None);
    }

    #[test]
    fn a_schema_without_its_level_says_so() {
        let schema = json!({"spec": {"priorityLevelConfiguration": {"name": "p"}}});
        let missing = dangling(&schema, false, "t1").unwrap();
        let condition = &missing["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NotFound")));
        assert_eq!(dangling(&missing, false, "t2"), None);
        let found = dangling(&missing, true, "t2").unwrap();
        let condition = &found["status"]["conditions"];
        assert_eq!(condition.as_array().unwrap().len(), 1);
        assert_eq!((&condition[0]["status"], &condition[0]["lastTransitionTime"]), (&json!("False"), &json!("t2")));
        // Another level that is missing too: since when stays.
        let mut other = missing.clone();
        other["spec"]["priorityLevelConfiguration"]["name"] = "q".into();
        let told = dangling(&other, false, "t3").unwrap();
        assert_eq!(told["status"]["conditions"][0]["lastTransitionTime"], "t1");
    }
}
