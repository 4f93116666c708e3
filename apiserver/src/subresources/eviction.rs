//! `POST pods/eviction`: a deletion that asks the pod's disruption budget first. Decides what an eviction is; what a budget allows is
//! `budget`'s.

use super::budget::{self, Spent};
use crate::http::{Outcome, Query};
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use crate::rest::delete::{DeleteOptions, delete};
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// Times that a pod is looked at again which changed while it was pending.
const TRIES: u32 = 16;

pub async fn evict(call: &Call<'_>, body: &Value) -> Outcome<Status> {
    if str_at(body, "metadata.name") != call.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object").into());
    }
    let options = DeleteOptions::read(body["deleteOptions"].clone(), &Query::default())?;
    let call = options.with_dry_run(call);
    let pinned = options.preconditions.as_ref().is_some_and(|given| given.resource_version.is_some());
    for _ in 0..TRIES {
        let pod = call.live().await?.ok_or_else(|| call.not_found())?;
        let spent = budget::spend(&call, &pod).await?;
        let mut options = options.clone();
        let ours = !pinned && matches!(spent, Spent::Pending | Spent::Unready(_));
        if ours {
            options.preconditions.get_or_insert_default().resource_version = Some(pod.revision.to_string());
        }
        match (delete(&call, &options).await, spent) {
            (Ok(_), _) => return Ok(evicted()),
            // It may run now: its budget is asked.
            (Err(status), Spent::Pending) if ours && status.code() == 409 => {}
            (Err(status), Spent::Unready(budget)) if ours && status.code() == 409 => {
                return Err(budget::moved(&budget));
            }
            (Err(status), _) => return Err(status),
        }
    }
    Err(Status::conflict("pods", call.name).into())
}

fn evicted() -> Status {
    let mut status = Status::success(None);
    status.code = 201;
    status
}
