//! What a ResourceClaimTemplate means to the API: the defaults and rules of its claims; it stays as it is.

use super::resourceclaim::rules;
use super::value::child;
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn defaults(&self, object: &mut Value) {
        rules::defaults(child(child(object, "spec"), "spec"));
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        for (key, value) in spec["metadata"]["labels"].as_object().into_iter().flatten() {
            super::pod::validate::label("spec.metadata.labels", key, value.as_str().unwrap_or_default(), errors);
        }
        for key in spec["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
            if let Err(why) = names::qualified_name(&key.to_lowercase()) {
                errors.invalid("spec.metadata.annotations", key.as_str(), why);
            }
        }
        match old {
            None => rules::spec(&spec["spec"], "spec.spec", errors),
            Some(old) if old["spec"] != *spec => errors.immutable("spec", spec.clone()),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors};
    use serde_json::json;

    #[test]
    fn a_template_is_that_of_a_claim_and_stays() {
        let template = |request: Value| {
            let object = json!({"spec": {"spec": {"devices": {"requests": [request]}}}});
            defaulted(&ResourceClaimTemplate, &object)
        };
        let good = template(json!({"name": "a", "exactly": {"deviceClassName": "c"}}));
        assert_eq!(good["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
        assert_eq!(errors(&ResourceClaimTemplate, &good, None), "[]");
        let bad = template(json!({"name": "a", "exactly": {}}));
        let expect = "spec.spec.devices.requests[0].exactly.deviceClassName: Required value";
        assert_eq!(errors(&ResourceClaimTemplate, &bad, None), expect);
        assert!(errors(&ResourceClaimTemplate, &bad, Some(&good)).ends_with("field is immutable"));
    }
}
