//! `POST pods/eviction`. Decides nothing yet but the deletion: disruption budgets are a later kind, and their place is here.

use crate::http::{Outcome, Query};
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use crate::rest::delete::{DeleteOptions, delete};
use gantry_apimachinery::status::Status;
use serde_json::Value;

pub async fn evict(call: &Call<'_>, body: &Value) -> Outcome<Status> {
    if str_at(body, "metadata.name") != call.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object").into());
    }
    let options = DeleteOptions::read(body["deleteOptions"].clone(), &Query::default())?;
    delete(&options.with_dry_run(call), &options).await?;
    let mut status = Status::success(None);
    status.code = 201;
    Ok(status)
}
