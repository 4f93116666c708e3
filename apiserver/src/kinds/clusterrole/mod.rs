//! What a ClusterRole means to the API: rules for the whole cluster, or selectors of the roles whose rules it gathers. What the
//! rules allow, and the gathering, are decided by `auth::rbac`.

use super::rbac::{ROLE_COLUMNS, check_rules, has, role_row};
use super::value::items;
use super::{Column, Ctx, Strategy};
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ClusterRole;

impl Strategy for ClusterRole {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        check_rules(new, false, errors);
        if !has(new, "aggregationRule") {
            return;
        }
        let path = "aggregationRule.clusterRoleSelectors";
        let selectors = items(new, path);
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required_because(path, why);
        }
        for (i, selector) in selectors.iter().enumerate() {
            if Selector::from_json(Some(selector)).is_err() {
                errors.invalid(format!("{path}[{i}]"), selector.clone(), "invalid label selector.");
            }
        }
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
    fn an_aggregation_selects_something() {
        let check = |role: Value, expect: &str| assert_eq!(errors(&ClusterRole, &role, None), expect);
        check(json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}), "[]");
        check(json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}), "[]");
        check(
            json!({"aggregationRule": {}}),
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
        check(
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}}),
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}]}: invalid label selector.",
        );
        assert_eq!(row(&ClusterRole, &json!({})), json!(["x", "1970-01-01T00:00:10Z"]));
    }
}
