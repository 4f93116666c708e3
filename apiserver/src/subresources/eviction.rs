//! `POST pods/eviction`: a deletion that asks the pod's disruption budget first. Decides what an eviction is; what a budget allows is
//! `budget`'s.

use super::budget;
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
    let call = options.with_dry_run(call);
    let pod = call.live().await?.ok_or_else(|| call.not_found())?;
    let options = budget::spend(&call, &pod, options).await?;
    delete(&call, &options).await?;
    let mut status = Status::success(None);
    status.code = 201;
    Ok(status)
}
