//! Get one object. Decides whether the cache may answer: only when the client allows an old version.

use super::call::Call;
use super::list::{await_version, expired_at, revision_at};
use super::output::Writer;
use crate::cache::{EventType, Object};
use crate::core::store_failure;
use crate::gantry::allocation;
use crate::http::{Outcome, Query, Response};
use gantry_apimachinery::status::Status;
use gantry_store::{RangeRequest, Revision, StoreError};
use http::StatusCode;
use std::sync::Arc;

pub async fn get(call: &Call<'_>, query: &Query, writer: &Writer) -> Outcome<Response> {
    let mut object = find(call, query).await?;
    if call.kind().plural == "nodeallocations" {
        // Whatever moved the allocation to this version counts in its totals.
        let caught_up = call.served.group.wait_for(object.revision).await;
        caught_up.map_err(|behind| Status::timeout(&behind.to_string(), 1))?;
        object = allocation::totalled(call.core, &object)?;
    }
    let object = call.served.show(object).await?;
    writer.respond(StatusCode::OK, writer.object(call.served, &object))
}

async fn find(call: &Call<'_>, query: &Query) -> Outcome<Arc<Object>> {
    if let Some(version) = query.get("resourceVersion") {
        if query.has("at") {
            return Err(Status::bad_request("at names a time: it does not go with resourceVersion").into());
        }
        await_version(call, version).await?;
        return call.served.resource.get(&call.path(call.name)).ok_or_else(|| call.not_found().into());
    }
    let mut request = RangeRequest::key(call.key(call.name));
    if let Some(at) = query.get("at") {
        request.revision = Some(Revision(revision_at(call, at)?));
    }
    let reply = match call.served.group.store.range(request).await {
        Err(StoreError::Compacted { .. }) => return Err(expired_at(query.get("at").unwrap_or_default()).into()),
        other => other.map_err(store_failure)?,
    };
    let kv = reply.kvs.into_iter().next().ok_or_else(|| call.not_found())?;
    let object = Object::parse(&kv.value, kv.mod_revision.0, EventType::Added, &call.served.resource.selectable);
    Ok(Arc::new(object.map_err(Status::internal)?))
}
