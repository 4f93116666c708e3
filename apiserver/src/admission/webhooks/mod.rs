//! Admission by webhooks: which are asked about a request, in which order, and what their answers do to it.
//!
//! Mutating webhooks are asked one after another, in the order of their configurations' names; one that asks for it is asked again
//! when others changed the object after it. Validating webhooks are asked all at once, and each may refuse. What is asked and how
//! answers are read is `review`'s, whom a request concerns is `hook`'s.

mod hook;
mod review;

use super::{Attributes, Operation};
use crate::cache::Object;
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::items;
use futures::future::join_all;
use gantry_apimachinery::kinds::{Kind, MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION};
use hook::Hook;
use serde_json::Value;
use std::sync::Arc;

/// The webhooks of one configuration, read once for each version of it.
struct Configuration(Vec<Hook>);

fn configurations(core: &Core, kind: &'static Kind) -> Vec<Arc<Object>> {
    let served = core.stored_kind(kind);
    if served.resource.is_empty() {
        return Vec::new();
    }
    served.resource.snapshot().tree.values().cloned().collect()
}

fn hooks<'o>(core: &Core, kind: &'static Kind, configuration: &'o Object) -> &'o [Hook] {
    let group = &core.stored_kind(kind).group;
    let read =
        |object: &Value| Configuration(items(object, "webhooks").iter().map(|hook| Hook::read(hook, group)).collect());
    &configuration.derived(read).0
}

/// Whether requests of this kind are anybody's business: what configures webhooks is changed without asking them, so that a
/// broken one can be mended.
fn concerns(attributes: &Attributes<'_>) -> bool {
    attributes.call.kind().group != "admissionregistration.k8s.io"
}

/// Asks the mutating webhooks. Answers whether the object changed.
pub async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Outcome<bool> {
    let core = attributes.call.core;
    let all = configurations(core, &MUTATING_WEBHOOK_CONFIGURATION);
    if all.is_empty() || !concerns(attributes) {
        return Ok(false);
    }
    let all: Vec<&Hook> = all.iter().flat_map(|one| hooks(core, &MUTATING_WEBHOOK_CONFIGURATION, one)).collect();
    let before = object.clone();
    // Each hook's view of the object when it was last asked.
    let mut asked: Vec<Option<Value>> = vec![None; all.len()];
    for round in 0..2 {
        for (at, hook) in all.iter().enumerate() {
            let again = asked[at].as_ref().is_some_and(|seen| hook.reinvoked && *seen != *object);
            if (round > 0 && !again) || !hook.concerns(attributes, Some(object))? {
                continue;
            }
            if let Some(changed) = review::ask(hook, attributes, Some(object)).await? {
                *object = changed;
            }
            asked[at] = Some(object.clone());
        }
    }
    Ok(*object != before)
}

/// Asks the validating webhooks. `object` is `None` for a delete.
pub async fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<()> {
    let core = attributes.call.core;
    let mut all = configurations(core, &VALIDATING_WEBHOOK_CONFIGURATION);
    let validating = all.len();
    // A delete is shown to mutating webhooks too; they have nothing to change.
    if attributes.operation == Operation::Delete {
        all.extend(configurations(core, &MUTATING_WEBHOOK_CONFIGURATION));
    }
    if all.is_empty() || !concerns(attributes) {
        return Ok(());
    }
    let mut asked = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let kind = if at < validating { &VALIDATING_WEBHOOK_CONFIGURATION } else { &MUTATING_WEBHOOK_CONFIGURATION };
        for hook in hooks(core, kind, one) {
            if hook.concerns(attributes, object)? {
                asked.push(review::ask(hook, attributes, object));
            }
        }
    }
    join_all(asked).await.into_iter().collect::<Outcome<Vec<_>>>().map(drop)
}
