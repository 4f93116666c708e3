//! What a ValidatingWebhookConfiguration means to the API: the defaults and rules of its webhooks, and what `kubectl get` shows.

use super::{Column, Ctx, Strategy, webhooks};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ValidatingWebhookConfiguration;

impl Strategy for ValidatingWebhookConfiguration {
    fn defaults(&self, object: &mut Value) {
        webhooks::defaults(object, |_| {});
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        webhooks::validate(new, |_, _, _| {}, errors);
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
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn hooks(change: impl FnOnce(&mut Value)) -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
        let mut hook = json!({"name": "check.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule],
            "clientConfig": {"service": {"name": "s", "namespace": "ns"}}});
        change(&mut hook);
        defaulted(&ValidatingWebhookConfiguration, &json!({"webhooks": [hook]}))
    }

    #[test]
    fn defaults_are_kubernetes() {
        let hook = &hooks(|_| {})["webhooks"][0];
        let fields = ["failurePolicy", "matchPolicy", "timeoutSeconds", "namespaceSelector", "objectSelector"];
        assert_eq!(fields.map(|f| hook[f].clone()), [json!("Fail"), json!("Equivalent"), json!(10), json!({}), json!({})]);
        assert_eq!((&hook["rules"][0]["scope"], &hook["clientConfig"]["service"]["port"]), (&json!("*"), &json!(443)));
        assert_eq!(hook.get("reinvocationPolicy"), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            let text = errors(&ValidatingWebhookConfiguration, &hooks(change), None);
            assert!(text.starts_with(expect), "{text}");
        };
        check(&|_| {}, "[]");
        check(
            &|hook| hook["name"] = json!("check"),
            "webhooks[0].name: Invalid value: \"check\": should be a domain with at least three segments separated by dots",
        );
        check(
            &|hook| hook["admissionReviewVersions"] = json!([]),
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        );
        check(
            &|hook| hook["admissionReviewVersions"] = json!(["v9"]),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
        );
        check(
            &|hook| hook["sideEffects"] = json!("Some"),
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        );
        check(
            &|hook| hook["sideEffects"] = json!(""),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        );
        check(
            &|hook| hook["timeoutSeconds"] = json!(31),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        );
        check(
            &|hook| hook["clientConfig"] = json!({}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        );
        check(
            &|hook| hook["clientConfig"] = json!({"url": "http://u@h/p?q#f"}),
            "[webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path], \
             webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted",
        );
        check(&|hook| hook["clientConfig"] = json!({"url": "https://h:8443/p"}), "[]");
        check(
            &|hook| hook["clientConfig"]["service"]["path"] = json!("no"),
            "webhooks[0].clientConfig.service.path: Invalid value: \"no\": must start with a '/'",
        );
        let mut twice = hooks(|_| {});
        let hook = twice["webhooks"][0].clone();
        twice["webhooks"].as_array_mut().unwrap().push(hook);
        let expect = "webhooks[1].name: Duplicate value: \"check.example.com\"";
        assert_eq!(errors(&ValidatingWebhookConfiguration, &twice, None), expect);
    }

    #[test]
    fn the_row_counts() {
        assert_eq!(row(&ValidatingWebhookConfiguration, &hooks(|_| {})), json!(["x", 1, "5s"]));
    }
}
