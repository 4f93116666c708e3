//! What a MutatingWebhookConfiguration means to the API: the defaults and rules of its webhooks, and what `kubectl get` shows.

use super::pod::validate::if_set_one_of;
use super::value::default;
use super::{Column, Ctx, Strategy, webhooks};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct MutatingWebhookConfiguration;

impl Strategy for MutatingWebhookConfiguration {
    fn defaults(&self, object: &mut Value) {
        webhooks::defaults(object, |hook| default(hook, "reinvocationPolicy", "Never"));
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let again = |hook: &Value, path: &str, errors: &mut FieldErrors| {
            if_set_one_of(hook, "reinvocationPolicy", path, &["IfNeeded", "Never"], errors);
        };
        webhooks::validate(new, again, errors);
    }

    fn columns(&self) -> &'static [Column] {
        webhooks::COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        webhooks::row(object, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors};
    use serde_json::json;

    #[test]
    fn a_webhook_is_called_once_unless_it_says_so() {
        let hooks = |policy: Value| {
            let hook = json!({"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://h"}, "reinvocationPolicy": policy});
            defaulted(&MutatingWebhookConfiguration, &json!({"webhooks": [hook]}))
        };
        assert_eq!(hooks(Value::Null)["webhooks"][0]["reinvocationPolicy"], "Never");
        assert_eq!(errors(&MutatingWebhookConfiguration, &hooks(json!("IfNeeded")), None), "[]");
        let expect = "webhooks[0].reinvocationPolicy: Unsupported value: \"Twice\": supported values: \"IfNeeded\", \"Never\"";
        assert_eq!(errors(&MutatingWebhookConfiguration, &hooks(json!("Twice")), None), expect);
    }
}
