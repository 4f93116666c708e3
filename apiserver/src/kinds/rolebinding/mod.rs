//! What a RoleBinding means to the API: who gets a role inside one namespace, a role that never changes. Whom it lets do what is
//! decided by `auth::rbac`.

use super::rbac::{BINDING_COLUMNS, binding_row, check_binding, default_binding};
use super::{Column, Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct RoleBinding;

impl Strategy for RoleBinding {
    fn defaults(&self, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        check_binding(new, old, &["Role", "ClusterRole"], true, errors);
    }

    fn columns(&self) -> &'static [Column] {
        BINDING_COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        binding_row(object, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    const GROUP: &str = "rbac.authorization.k8s.io";

    fn binding(kind: &str, name: &str, subjects: Value) -> Value {
        json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}, "subjects": subjects})
    }

    #[test]
    fn groups_of_the_api_may_be_left_out() {
        let given = json!({"roleRef": {"kind": "Role", "name": "a"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}, {"kind": "Group", "name": "g"},
        ]});
        let expect = binding(
            "Role",
            "a",
            json!([
                {"kind": "User", "name": "u", "apiGroup": GROUP}, {"kind": "ServiceAccount", "name": "s"},
                {"kind": "Group", "name": "g", "apiGroup": GROUP},
            ]),
        );
        assert_eq!(defaulted(&RoleBinding, &given), expect);
    }

    #[test]
    fn a_binding_names_a_role_and_subjects() {
        let check = |new: Value, expect: &str| assert_eq!(errors(&RoleBinding, &new, None), expect);
        check(binding("ClusterRole", "system:x", json!([{"kind": "ServiceAccount", "name": "a"}])), "[]");
        check(
            json!({"roleRef": {"apiGroup": "x", "kind": "User", "name": "a/b"}}),
            "[roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\", roleRef.kind: Unsupported value: \"User\": supported values: \"Role\", \"ClusterRole\", roleRef.name: Invalid value: \"a/b\": may not contain '/']",
        );
        check(
            binding("Role", "", json!([{"kind": "Robot"}])),
            "[roleRef.name: Required value, subjects[0].name: Required value, subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"]",
        );
        check(
            binding("Role", "a", json!([{"kind": "ServiceAccount", "name": "A", "apiGroup": GROUP}, {"kind": "User", "name": "u"}])),
            "[subjects[0].name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), subjects[0].apiGroup: Unsupported value: \"rbac.authorization.k8s.io\": supported values: \"\", subjects[1].apiGroup: Unsupported value: \"\": supported values: \"rbac.authorization.k8s.io\"]",
        );
    }

    #[test]
    fn the_role_never_changes() {
        let (old, new) = (binding("Role", "a", json!([])), binding("Role", "b", json!([])));
        assert_eq!(
            errors(&RoleBinding, &new, Some(&old)),
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"b\"}: cannot change roleRef"
        );
        assert_eq!(errors(&RoleBinding, &old, Some(&old)), "[]");
    }

    #[test]
    fn the_row_names_role_and_subjects() {
        let subjects = json!([
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ]);
        let row = row(&RoleBinding, &binding("Role", "a", subjects));
        assert_eq!(row, json!(["x", "Role/a", "5s", "u, v", "g", "n/s"]));
    }
}
