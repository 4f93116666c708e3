//! What a ClusterRoleBinding means to the API: who gets a role in the whole cluster, a role that never changes. Whom it lets do
//! what is decided by `auth::rbac`.

use super::rbac::{BINDING_COLUMNS, binding_row, check_binding, default_binding};
use super::{Column, Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ClusterRoleBinding;

impl Strategy for ClusterRoleBinding {
    fn defaults(&self, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        check_binding(new, old, &["ClusterRole"], false, errors);
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
    use crate::kinds::testing::{defaulted, errors};
    use serde_json::json;

    #[test]
    fn it_binds_cluster_roles_alone_and_accounts_with_their_namespace() {
        let check = |new: Value, expect: &str| {
            let new = defaulted(&ClusterRoleBinding, &new);
            assert_eq!(errors(&ClusterRoleBinding, &new, None), expect);
        };
        check(json!({"roleRef": {"kind": "ClusterRole", "name": "a"}, "subjects": [{"kind": "User", "name": "u"}]}), "[]");
        check(
            json!({"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
            "[roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\", subjects[0].namespace: Required value]",
        );
    }
}
