//! `POST pods/binding` and `POST bindings`. Decides how a Binding reads; binding itself is `gantry::bind`.

use crate::gantry::bind::{Bind, plain};
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::call::Call;
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// Binds and answers `Status` success. `call.name` is empty when the Binding itself names the pod.
pub async fn bind(call: &Call<'_>, body: &Value) -> Outcome<Status> {
    let given = str_at(body, "metadata.name");
    if !call.name.is_empty() && !given.is_empty() && given != call.name {
        return Err(Status::bad_request(format!(
            "name in URL does not match name in Binding object: {} != {given}",
            call.name
        ))
        .into());
    }
    let node = str_at(body, "target.name");
    if node.is_empty() {
        return Err(Status::bad_request("target.name: Required value").into());
    }
    let kind = str_at(body, "target.kind");
    if !["", "Node"].contains(&kind) {
        return Err(
            Status::bad_request("target.kind: Unsupported value: supported values: \"Node\", \"<empty>\"").into()
        );
    }
    let bind = Bind {
        // It is decided here, from the pod as it is.
        generation: None,
        namespace: call.namespace,
        name: if call.name.is_empty() { given } else { call.name },
        uid: str_at(body, "metadata.uid"),
        node,
        annotations: body["metadata"]["annotations"].as_object(),
    };
    plain(call.core, &bind, call.now, call.options.dry_run).await?;
    let mut status = Status::success(None);
    status.code = 201;
    Ok(status)
}
