//! What the strategies' tests share: calling one method and reading its outcome as text. Decides nothing.

use super::{Ctx, Strategy};
use crate::auth::UserInfo;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

/// Runs `f` with the context of an administrator's write.
pub fn with_ctx<T>(subresource: Option<&str>, f: impl FnOnce(&Ctx) -> T) -> T {
    let user = UserInfo::new("kubernetes-admin", &["system:masters"]);
    f(&Ctx { now: Timestamp::from_secs(1_000), user: &user, subresource, entropy: 7, dry_run: false })
}

/// The validation's errors as one text; `[]` when there are none.
pub fn errors(strategy: &dyn Strategy, new: &Value, old: Option<&Value>) -> String {
    errors_of(strategy, new, old, None)
}

pub fn errors_of(strategy: &dyn Strategy, new: &Value, old: Option<&Value>, subresource: Option<&str>) -> String {
    let mut errors = FieldErrors::new();
    with_ctx(subresource, |ctx| strategy.validate(new, old, ctx, &mut errors));
    errors.to_string()
}

/// The object after defaulting, which must not change when done again.
pub fn defaulted(strategy: &dyn Strategy, object: &Value) -> Value {
    let mut once = object.clone();
    strategy.defaults(&mut once);
    let mut twice = once.clone();
    strategy.defaults(&mut twice);
    assert_eq!(once, twice, "defaults are idempotent");
    once
}

pub fn created(strategy: &dyn Strategy, object: &Value) -> Value {
    let mut object = defaulted(strategy, object);
    with_ctx(None, |ctx| strategy.prepare_create(&mut object, ctx));
    object
}

pub fn updated(strategy: &dyn Strategy, new: &Value, old: &Value, subresource: Option<&str>) -> Value {
    let mut new = defaulted(strategy, new);
    with_ctx(subresource, |ctx| strategy.prepare_update(&mut new, old, ctx));
    new
}

/// The row of an object called `x`, five seconds old; as many cells as there are columns.
pub fn row(strategy: &dyn Strategy, object: &Value) -> Value {
    let mut object = object.clone();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:10Z");
    let row = strategy.row(&object, Timestamp::from_secs(15));
    assert_eq!(row.len(), strategy.columns().len(), "one cell per column");
    Value::Array(row)
}
