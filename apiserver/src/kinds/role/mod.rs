//! What a Role means to the API: rules inside one namespace. What they allow is decided by `auth::rbac`.

use super::rbac::{ROLE_COLUMNS, check_rules, role_row};
use super::{Column, Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct Role;

impl Strategy for Role {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        check_rules(new, true, errors);
    }

    fn columns(&self) -> &'static [Column] {
        ROLE_COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        role_row(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn every_rule_allows_something_in_its_namespace() {
        let check = |rule: Value, expect: &str| {
            assert_eq!(errors(&Role, &json!({"metadata": {"name": "a"}, "rules": [rule]}), None), expect);
        };
        check(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), "[]");
        check(
            json!({}),
            "[rules[0].verbs: Required value: verbs must contain at least one value, rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource]",
        );
        check(
            json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}),
            "[rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs, rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs]",
        );
        assert_eq!(row(&Role, &json!({})), json!(["x", "1970-01-01T00:00:10Z"]));
    }
}
