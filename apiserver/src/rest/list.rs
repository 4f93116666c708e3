//! List. Decides at which revision a list is true, and what pages and continue tokens mean.
//!
//! Without a version a list is consistent: the store says how far it is, and the cache answers once it is there. Later pages and
//! exact versions are read from the store at their revision, so that any replica can serve them.

use super::call::Call;
use super::list_body;
use super::output::Writer;
use crate::cache::timeline::{self, Unknown};
use crate::cache::{EventType, Object, Selection};
use crate::core::store_failure;
use crate::gantry::allocation;
use crate::http::negotiate::Projection;
use crate::http::{Outcome, Query, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gantry_apimachinery::status::{Cause, Details, Reason, Status};
use gantry_store::{RangeRequest, Revision, StoreError, prefix_end};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

const PAGE: usize = 1_000;

/// Waits until the cache has a version that the client has seen.
pub async fn await_version(call: &Call<'_>, version: &str) -> Outcome<()> {
    let wanted: u64 = version.parse().map_err(|_| {
        Status::bad_request(format!("resourceVersion: Invalid value: {version:?}: strconv.ParseUint: invalid syntax"))
    })?;
    call.served.group.wait_for(wanted).await.map_err(|behind| too_large(wanted, behind.at).into())
}

fn too_large(wanted: u64, current: u64) -> Status {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let mut status = Status::timeout(&message, 1);
    if let Some(details) = &mut status.details {
        let text = "Too large resource version".to_owned();
        details.causes.push(Cause { reason: "ResourceVersionTooLarge".into(), message: text, field: String::new() });
    }
    status
}

/// Waits until the cache has everything that was acknowledged before now.
pub async fn await_now(call: &Call<'_>) -> Outcome<()> {
    let group = &call.served.group;
    let now = group.store.read_revision().await.map_err(store_failure)?;
    group.wait_for(now.0).await.map_err(|behind| Status::timeout(&behind.to_string(), 1).into())
}

/// Where the next page starts. `rv` 0: wherever the store is now (an inconsistent continuation).
#[derive(Serialize, Deserialize)]
struct Token {
    v: u8,
    rv: u64,
    start: String,
}

impl Token {
    fn encode(rv: u64, start: &str) -> String {
        let token = Self { v: 1, rv, start: start.to_owned() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("plain fields always serialise"))
    }
    fn decode(text: &str) -> Outcome<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let token = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok()).filter(|token| token.v == 1);
        token.ok_or_else(|| Status::bad_request("continue key is not valid").into())
    }
}

/// One page of objects.
struct Page {
    objects: Vec<Arc<Object>>,
    revision: u64,
    /// The path after which the next page starts.
    next: Option<String>,
    remaining: Option<usize>,
}

pub async fn list(call: &Call<'_>, query: &Query, selection: &Selection, writer: &Writer) -> Outcome<Response> {
    let limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
    query.number("timeoutSeconds")?;
    // Of NodeAllocations: what a machine's pods take together is summed for each, unless nobody wants to know.
    let totals = query.get("totals") != Some("false");
    let (version, rule) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    if let Some(at) = query.get("at") {
        if query.has("continue") || version.is_some() {
            return Err(bad_match("at names a time: it goes with neither resourceVersion nor continue"));
        }
        let revision = revision_at(call, at)?;
        let page = from_store(call, selection, Some(revision), "", limit).await;
        let page = page.map_err(|status| if status.reason == Reason::Expired { expired_at(at).into() } else { status });
        return answer(call, page?, totals, writer).await;
    }
    if rule.is_some() && version.is_none() {
        return Err(bad_match("resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if let Some(rule) = rule
        && !["Exact", "NotOlderThan"].contains(&rule)
    {
        return Err(bad_match(&format!("resourceVersionMatch: Unsupported value: {rule:?}")));
    }
    let page = match (query.get("continue"), version, rule) {
        (Some(_), Some(version), _) if version != "0" => {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue").into());
        }
        (Some(token), ..) => {
            let token = Token::decode(token)?;
            from_store(call, selection, (token.rv > 0).then_some(token.rv), &token.start, limit).await?
        }
        (None, Some("0"), Some("Exact")) => {
            return Err(bad_match("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        (None, Some(version), Some("Exact")) => {
            let revision =
                version.parse().map_err(|_| Status::bad_request(format!("invalid resourceVersion {version:?}")))?;
            from_store(call, selection, Some(revision), "", limit).await?
        }
        // As Kubernetes: a page of a named version is of exactly that version.
        (None, Some(version), None) if limit > 0 && version != "0" => {
            let revision =
                version.parse().map_err(|_| Status::bad_request(format!("invalid resourceVersion {version:?}")))?;
            from_store(call, selection, Some(revision), "", limit).await?
        }
        // As Kubernetes: a list from the cache's own version is not paged.
        (None, Some("0"), _) => from_cache(call, selection, 0),
        (None, Some(version), _) => {
            await_version(call, version).await?;
            from_cache(call, selection, limit)
        }
        (None, None, _) => {
            await_now(call).await?;
            from_cache(call, selection, limit)
        }
    };
    answer(call, page, totals, writer).await
}

/// The revision that the objects were at at a time.
pub fn revision_at(call: &Call<'_>, at: &str) -> Outcome<u64> {
    let now = call.served.group.now();
    let when = timeline::parse(at, now).ok_or_else(|| {
        Status::bad_request(format!("at: {at:?} is no time: give one as 2026-01-31T12:00:00Z, or how long ago as -2m"))
    })?;
    call.served.group.revision_at(when).map_err(|unknown| {
        Box::new(match unknown {
            Unknown::Future => Status::bad_request(format!("at: {when} is in the future")),
            Unknown::Nothing => Status::timeout("this server has not seen the store yet", 1),
            Unknown::Before(since) => {
                Status::expired(format!("at: {when} is before {since}, from when on this server knows what there was"))
            }
        })
    })
}

fn bad_match(text: &str) -> Box<Status> {
    Status::bad_request(text).into()
}

fn from_cache(call: &Call<'_>, selection: &Selection, limit: usize) -> Page {
    let snapshot = call.served.resource.snapshot_for(selection);
    let mut matching = selection.select(&snapshot.tree, call.kind().namespaced);
    let take = if limit == 0 { usize::MAX } else { limit };
    let objects: Vec<Arc<Object>> = matching.by_ref().take(take).cloned().collect();
    let more = limit > 0 && objects.len() == limit;
    let rest = if more { matching.count() } else { 0 };
    let next = objects.last().filter(|_| rest > 0).map(|last| format!("{}\0", last.path()));
    let remaining = (rest > 0 && selection.is_whole()).then_some(rest);
    Page { objects, revision: snapshot.revision, next, remaining }
}

/// Reads at a revision of the past, from `start` (a path) on.
async fn from_store(
    call: &Call<'_>,
    selection: &Selection,
    revision: Option<u64>,
    start: &str,
    limit: usize,
) -> Outcome<Page> {
    let stored = call.served.resource.kind;
    let prefix = stored.key_prefix(&selection.namespace);
    let all = stored.key_prefix("");
    let first = format!("{all}{start}");
    let mut request = RangeRequest {
        start: first.max(prefix.clone()).into(),
        end: prefix_end(prefix.as_bytes()),
        limit: PAGE,
        revision: revision.map(Revision),
        ..RangeRequest::default()
    };
    let mut page = Page { objects: Vec::new(), revision: revision.unwrap_or(0), next: None, remaining: None };
    let mut seen = 0;
    loop {
        let reply = match call.served.group.store.range(request.clone()).await {
            Err(StoreError::Compacted { .. }) => return Err(expired(revision, start).into()),
            other => other.map_err(store_failure)?,
        };
        if page.revision == 0 {
            page.revision = reply.revision.0;
            request.revision = Some(reply.revision);
        }
        let total = reply.count;
        for kv in reply.kvs {
            seen += 1;
            request.start = [&kv.key[..], b"\0"].concat().into();
            let object =
                Object::parse(&kv.value, kv.mod_revision.0, EventType::Added, &call.served.resource.selectable);
            let object = object.map_err(Status::internal)?;
            if !selection.matches(&object) {
                continue;
            }
            page.objects.push(Arc::new(object));
            if page.objects.len() == limit {
                let rest = total.saturating_sub(seen);
                if rest > 0 {
                    page.next = page.objects.last().map(|last| format!("{}\0", last.path()));
                    page.remaining = selection.is_whole().then_some(rest);
                }
                return Ok(page);
            }
        }
        if !reply.more {
            return Ok(page);
        }
        seen = 0;
    }
}

/// 410 for a time that the store's history does not reach back to.
pub fn expired_at(at: &str) -> Status {
    Status::expired(format!("at: {at} is longer ago than the store's history, which is at most five minutes"))
}

/// 410, with a token that goes on from the same place in the present.
fn expired(revision: Option<u64>, start: &str) -> Status {
    if start.is_empty() {
        return Status::expired(format!("The provided resource version is too old: {}", revision.unwrap_or(0)));
    }
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
    let mut status = Status::failure(Reason::Expired, text, Some(Details::default()));
    status.metadata.insert("continue".into(), Token::encode(0, start).into());
    status
}

async fn answer(call: &Call<'_>, mut page: Page, totals: bool, writer: &Writer) -> Outcome<Response> {
    let served = call.served;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = Token::encode(page.revision, next).into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if totals && served.kind.plural == "nodeallocations" && writer.output.projection != Projection::Metadata {
        let objects = page.objects.iter().map(|object| allocation::totalled(call.core, object));
        page.objects = objects.collect::<Outcome<_>>()?;
    }
    page.objects = served.show_all(page.objects).await?;
    list_body::respond_with(served, &metadata, page.objects, writer).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_fuzzing::input;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_that_nobody_gave_are_refused(bytes in input(Token::encode(77, "shop/web").into_bytes())) {
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(token) = Token::decode(&text) {
                let again = Token::decode(&Token::encode(token.rv, &token.start));
                let again = again.map(|again| (again.rv, again.start));
                prop_assert_eq!(again.map_err(|status| status.message), Ok((token.rv, token.start)));
            }
        }
    }
}
