//! How much there is to list or to tell for a request, looked up in the caches. What that costs is decided by `estimate`.

use super::Work;
use crate::auth::authz::Attributes;
use crate::cache::{Resource, in_namespace};
use crate::core::Core;
use crate::http::{Query, Target, Verb};
use gantry_apimachinery::kinds::EVENT_BATCH;

/// More objects than that make no request wider.
const ENOUGH: usize = 1_000;
/// What a batch of events takes: it carries up to 256 writes.
const BATCH_SEATS: usize = 8;

/// The work of a request, as far as it can be told beforehand.
pub fn of(core: &Core, target: &Target, what: &Attributes<'_>, query: &Query) -> Work {
    let Target::Resource { verb: Some(verb), path } = target else { return Work::ONE };
    let listed = match verb {
        Verb::List => true,
        // It begins with a list.
        Verb::Watch => query.flag("sendInitialEvents") || matches!(query.get("resourceVersion"), None | Some("" | "0")),
        _ => false,
    };
    // A token is written nowhere.
    if path.subresource == "token" || (verb.is_read() && (!listed || !path.subresource.is_empty())) {
        return Work::ONE;
    }
    if (&*path.group, &*path.resource) == (EVENT_BATCH.group, EVENT_BATCH.plural) {
        return Work { seats: BATCH_SEATS, after_us: 0 };
    }
    let registry = core.registry();
    let Some(served) = registry.find(&path.group, &path.version, &path.resource) else { return Work::ONE };
    if !verb.is_read() {
        return Work::write(served.resource.told_count());
    }
    // A selector looks at more than it returns.
    let selects = ["labelSelector", "fieldSelector"].iter().any(|name| query.get(name).is_some_and(|s| !s.is_empty()));
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0 && !selects);
    let enough = limit.map_or(ENOUGH, |limit: usize| limit.min(ENOUGH));
    Work::list(listed_by(&served.resource, what, enough).min(enough))
}

/// How many objects a list looks at, counted as far as that matters.
fn listed_by(resource: &Resource, what: &Attributes<'_>, enough: usize) -> usize {
    if !what.name.is_empty() {
        return 1;
    }
    if let Some(node) = what.node_selector.filter(|_| resource.is_indexed_by_node()) {
        return resource.on_node(node).tree.len();
    }
    if what.namespace.is_empty() {
        return resource.len();
    }
    resource.snapshot().tree.range(in_namespace(what.namespace)).take(enough).count()
}
