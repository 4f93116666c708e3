//! What a Secret means to the API: `stringData` becomes `data`, each type has the keys it must have, and type and immutable
//! data stay as they are. It never reads what the data says.

use super::configmap::{MAX_DATA, check_key, immutable, keys, size};
use super::value::{at, default, object_mut, remove, str_at};
use super::{Column, Ctx, Selectable, Strategy, columns};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

pub struct Secret;

impl Strategy for Secret {
    fn defaults(&self, object: &mut Value) {
        if str_at(object, "type").is_empty() {
            remove(object, "type");
        }
        default(object, "type", "Opaque");
        let Some(Value::Object(plain)) = remove(object, "stringData") else { return };
        default(object, "data", serde_json::Map::new());
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or(""));
            object_mut(&mut object["data"]).insert(key, encoded.into());
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(old) = old {
            if new["type"] != old["type"] {
                errors.immutable("type", new["type"].clone());
            }
            immutable(new, old, &["data"], errors);
        }
        for key in keys(&new["data"]) {
            check_key(key, "data", errors);
        }
        if size(&new["data"]) / 4 * 3 > MAX_DATA {
            errors.too_long("data", MAX_DATA);
        }
        check_type(new, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Type", "What the data is for."),
            Column::text("Data", "How many keys it has."),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = keys(&object["data"]).count();
        vec![columns::name(object), object["type"].clone(), count.into(), columns::age(object, now)]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::path("type")];
        FIELDS
    }
}

/// The keys that the well-known types must have.
fn check_type(secret: &Value, errors: &mut FieldErrors) {
    let data = &secret["data"];
    let mut need = |key: &str| {
        if data.get(key).is_none() {
            errors.required(format!("data[{key}]"));
        }
    };
    match str_at(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let name = secret["metadata"]["annotations"][SERVICE_ACCOUNT_NAME].as_str().unwrap_or("");
            if name.is_empty() {
                errors.required(format!("metadata.annotations[{SERVICE_ACCOUNT_NAME}]"));
            }
        }
        "kubernetes.io/dockercfg" => check_json(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => check_json(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if at(data, "username").is_none() && at(data, "password").is_none() => {
            errors.required("data[username]");
            errors.required("data[password]");
        }
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

fn check_json(data: &Value, key: &str, errors: &mut FieldErrors) {
    let path = format!("data[{key}]");
    let Some(text) = data.get(key).and_then(Value::as_str) else { return errors.required(path) };
    let parsed = STANDARD.decode(text).ok().map(|bytes| serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes));
    if let Some(Err(error)) = parsed {
        // The value is secret: it is not repeated in the error.
        errors.invalid(path, "<secret contents redacted>", error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    #[test]
    fn plain_data_is_encoded() {
        let given = json!({"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "x", "c": "y"}});
        let expect = json!({"type": "Opaque", "data": {"a": "MQ==", "b": "eA==", "c": "eQ=="}});
        assert_eq!(defaulted(&Secret, &given), expect);
        assert_eq!(defaulted(&Secret, &json!({"type": ""})), json!({"type": "Opaque"}));
    }

    #[test]
    fn types_have_their_keys() {
        let check = |new: Value, expect: &str| assert_eq!(errors(&Secret, &new, None), expect);
        check(json!({"type": "my/own", "data": {"x": ""}}), "[]");
        check(json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}), "data[tls.key]: Required value");
        check(json!({"type": "kubernetes.io/ssh-auth"}), "data[ssh-privatekey]: Required value");
        check(json!({"type": "kubernetes.io/basic-auth", "data": {"password": ""}}), "[]");
        check(json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": STANDARD.encode("{}")}}), "[]");
        check(
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": STANDARD.encode("{")}}),
            "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": EOF while parsing an object at line 1 column 1",
        );
        check(
            json!({"type": "kubernetes.io/service-account-token"}),
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        );
    }

    #[test]
    fn type_and_immutable_data_stay() {
        let check = |new: Value, old: Value, expect: &str| assert_eq!(errors(&Secret, &new, Some(&old)), expect);
        check(json!({"type": "b"}), json!({"type": "a"}), "type: Invalid value: \"b\": field is immutable");
        check(
            json!({"type": "a", "immutable": true, "data": {"k": ""}}),
            json!({"type": "a", "immutable": true}),
            "data: Forbidden: field is immutable when `immutable` is set",
        );
    }

    #[test]
    fn a_row() {
        assert_eq!(row(&Secret, &json!({"type": "Opaque", "data": {"a": ""}})), json!(["x", "Opaque", 1, "5s"]));
    }
}
