//! StorageObjectInUseProtection: a new claim or volume is held, so that it outlives its deletion for as long as it is used.
//! Who lets it go is a controller.

use super::{Admission, Attributes, Operation};
use crate::http::Outcome;
use crate::kinds::value::{items, object_mut};
use gantry_apimachinery::kinds::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM};
use serde_json::Value;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

pub struct StorageObjectInUse;

impl Admission for StorageObjectInUse {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Outcome<()> {
        if attributes.operation != Operation::Create || attributes.call.subresource.is_some() {
            return Ok(());
        }
        let kind = attributes.call.served.resource.kind;
        if kind == &PERSISTENT_VOLUME_CLAIM {
            hold(object, CLAIM);
        } else if kind == &PERSISTENT_VOLUME {
            hold(object, VOLUME);
        }
        Ok(())
    }
}

fn hold(object: &mut Value, finalizer: &str) {
    let mut finalizers = items(object, "metadata.finalizers").to_vec();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
        object_mut(&mut object["metadata"]).insert("finalizers".to_owned(), finalizers.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_held_once_beside_others() {
        let check = |given: Value, expect: Value| {
            let mut object = json!({"metadata": {"finalizers": given}});
            hold(&mut object, CLAIM);
            assert_eq!(object["metadata"]["finalizers"], expect);
        };
        check(Value::Null, json!([CLAIM]));
        check(json!(["a"]), json!(["a", CLAIM]));
        check(json!([CLAIM, "a"]), json!([CLAIM, "a"]));
    }
}
