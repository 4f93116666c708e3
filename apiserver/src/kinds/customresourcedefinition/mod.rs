//! What a CustomResourceDefinition means to the API: its names, its versions, its storage. Which schemas are structural is
//! `apimachinery::structural`'s; what it makes the API serve is `crate::custom`'s.

mod validate;

use super::value::{child, default, items, remove, str_at};
use super::{Column, Ctx, Strategy, columns};
use crate::custom::CLEANUP;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn defaults(&self, object: &mut Value) {
        let kind = str_at(object, "spec.names.kind").to_owned();
        let names = child(child(object, "spec"), "names");
        if !kind.is_empty() {
            if str_at(names, "singular").is_empty() {
                names["singular"] = kind.to_lowercase().into();
            }
            if str_at(names, "listKind").is_empty() {
                names["listKind"] = format!("{kind}List").into();
            }
        }
        default(&mut object["spec"], "conversion", json!({}));
        default(&mut object["spec"]["conversion"], "strategy", "None");
        let service = &mut object["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
        if service.is_object() {
            default(service, "port", 443);
        } else {
            tidy_webhook(object);
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
        note_storage(object);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, ctx: &Ctx) {
        if !ctx.is_status() {
            note_storage(new);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return validate::status(new, errors);
        }
        validate::definition(new, old, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::NAME, Column { kind: "date", ..Column::text("Created At", "When the definition was made.") }];
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), object["metadata"]["creationTimestamp"].clone()]
    }

    fn held_by(&self) -> Option<&'static str> {
        Some(CLEANUP)
    }
}

/// Indexing above makes what is not there; nothing of it may stay.
fn tidy_webhook(object: &mut Value) {
    let conversion = &mut object["spec"]["conversion"];
    let Some(webhook) = conversion.get_mut("webhook") else { return };
    if let Some(config) = webhook.get_mut("clientConfig") {
        if config["service"].is_null() {
            remove(config, "service");
        }
        if config.as_object().is_none_or(serde_json::Map::is_empty) {
            remove(webhook, "clientConfig");
        }
    }
    if webhook.as_object().is_none_or(serde_json::Map::is_empty) {
        remove(conversion, "webhook");
    }
}

/// A version that objects are stored in stays listed until somebody has migrated them.
fn note_storage(object: &mut Value) {
    let storage = items(object, "spec.versions").iter().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| str_at(version, "name").to_owned()) else { return };
    let status = child(object, "status");
    let mut stored = items(status, "storedVersions").to_vec();
    if !stored.iter().any(|version| *version == name) {
        stored.push(name.into());
    }
    status["storedVersions"] = stored.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{created, errors, row};

    fn definition() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        })
    }

    #[test]
    fn names_and_conversion_are_filled_in() {
        let object = created(&CustomResourceDefinition, &definition());
        assert_eq!(object["spec"]["names"], json!({"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}));
        assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(errors(&CustomResourceDefinition, &object, None), "[]");
        assert_eq!(row(&CustomResourceDefinition, &object), json!(["x", "1970-01-01T00:00:10Z"]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: fn(&mut Value), expect: &str| {
            let mut object = created(&CustomResourceDefinition, &definition());
            change(&mut object);
            assert_eq!(errors(&CustomResourceDefinition, &object, None), expect);
        };
        check(|o| o["metadata"]["name"] = "x".into(), "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group");
        check(|o| o["spec"]["scope"] = "Galaxy".into(), "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"");
        check(|o| o["spec"]["versions"][0]["storage"] = false.into(), "spec.versions: Invalid value: [{\"name\":\"v1\",\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}},\"served\":true,\"storage\":false}]: must have exactly one version marked as storage version");
        check(|o| { o["spec"]["versions"][0].as_object_mut().unwrap().remove("schema"); }, "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required");
        check(|o| o["spec"]["preserveUnknownFields"] = true.into(), "spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema");
        check(|o| {
            o["spec"]["group"] = "a.k8s.io".into();
            o["metadata"]["name"] = "widgets.a.k8s.io".into();
        }, "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111");
    }

    #[test]
    fn established_names_stay() {
        let mut old = created(&CustomResourceDefinition, &definition());
        old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        let mut new = old.clone();
        new["spec"]["scope"] = "Cluster".into();
        assert_eq!(errors(&CustomResourceDefinition, &new, Some(&old)), "spec.scope: Invalid value: \"Cluster\": field is immutable");
    }
}
