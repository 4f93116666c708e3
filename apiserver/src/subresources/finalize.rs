//! `PUT namespaces/NAME/finalize`: the only door to `spec.finalizers`. The last finalizer's removal ends the namespace.

use crate::http::Outcome;
use crate::rest::call::Call;
use crate::rest::stored::Written;
use crate::rest::update::update;
use serde_json::Value;

pub async fn finalize(call: &Call<'_>, body: Value) -> Outcome<Written> {
    update(call, &|old| {
        let mut new = old.clone();
        new["spec"]["finalizers"] = body["spec"]["finalizers"].clone();
        for field in ["resourceVersion", "uid"] {
            if let Some(given) = body["metadata"].get(field) {
                new["metadata"][field] = given.clone();
            }
        }
        if new["spec"]["finalizers"].is_null() {
            new["spec"]["finalizers"] = Value::Array(Vec::new());
        }
        Ok(new)
    })
    .await
}
