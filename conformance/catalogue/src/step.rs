//! One step of a behaviour, as the catalogue writes it. It decides the form of steps, never what a server should answer.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Exactly one of `do`, `make`, `together`, `attempt`, `events`, `ended`, `close`, `set` and `check` says what is done.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// `METHOD PATH`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// `FIXTURE NAME`: creates that object, with what `with` changes of it.
    pub make: Option<String>,
    pub with: Option<Value>,
    /// Steps at the same time.
    pub together: Option<Vec<Value>>,
    /// Steps one after the other, all again from the first until all are as expected, for `eventually` seconds.
    pub attempt: Option<Vec<Value>>,
    /// The next events of a watch are like `are`; with `among`, others may come between.
    pub events: Option<String>,
    pub are: Vec<Value>,
    pub among: bool,
    /// The watch ends by itself.
    pub ended: Option<String>,
    pub close: Option<String>,
    /// Variables.
    pub set: Option<Map<String, Value>>,
    /// This value is like `is`.
    pub check: Option<Value>,
    pub is: Option<Value>,

    /// Opens a watch under this name.
    pub watch: Option<String>,
    pub query: BTreeMap<String, Value>,
    pub headers: BTreeMap<String, String>,
    /// What `$ns` means in `@kind` here.
    #[serde(rename = "in")]
    pub namespace: Option<String>,
    pub body: Option<Value>,
    /// A body as it is, sent as JSON unless `headers` say otherwise.
    pub text: Option<String>,
    /// A body as it is, in base64.
    pub base64: Option<String>,
    /// The text of `body`'s place so many times: bodies too large to be written down. `{text, times, before, after}`.
    pub filled: Option<Filled>,
    pub merge: Option<Value>,
    pub strategic: Option<Value>,
    pub jsonpatch: Option<Value>,
    /// Server-side apply; kind and version come from the path when they are not said.
    pub apply: Option<Value>,
    pub manager: Option<String>,
    pub force: bool,
    /// A name of [`accept`] or a media type.
    pub accept: Option<String>,
    /// Impersonates: a name, or `{user, groups, uid, extra}`.
    #[serde(rename = "as")]
    pub identity: Option<Value>,
    /// This bearer token instead of one's own credentials.
    pub token: Option<String>,
    /// Without any credentials.
    pub anonymous: bool,
    pub expect: Option<Value>,
    pub capture: BTreeMap<String, String>,
    /// Again and again until the answer is as expected, for so many seconds.
    pub eventually: Option<u64>,
    /// So many times, with `$i` from 1; at once if `parallel`.
    pub times: Option<u32>,
    pub parallel: bool,
    /// How often each status came, when `times` is given.
    pub outcomes: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filled {
    #[serde(default)]
    pub before: String,
    pub text: String,
    pub times: usize,
    #[serde(default)]
    pub after: String,
}

/// The body that is sent and its content type.
pub struct Body {
    pub bytes: Vec<u8>,
    pub media_type: &'static str,
}

impl Step {
    pub fn read(value: &Value) -> Result<Self, String> {
        let step: Self = serde_json::from_value(value.clone()).map_err(|error| format!("{error}: {value}"))?;
        let verbs = [
            step.request.is_some(),
            step.make.is_some(),
            step.together.is_some(),
            step.attempt.is_some(),
            step.events.is_some(),
            step.ended.is_some(),
            step.close.is_some(),
            step.set.is_some(),
            step.check.is_some(),
        ];
        let bodies = [
            step.body.is_some(),
            step.text.is_some(),
            step.base64.is_some(),
            step.filled.is_some(),
            step.merge.is_some(),
            step.strategic.is_some(),
            step.jsonpatch.is_some(),
            step.apply.is_some(),
        ];
        let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count();
        match (count(&verbs), count(&bodies)) {
            (1, 0 | 1) => Ok(step),
            (1, _) => Err(format!("a step has one body: {value}")),
            _ => Err(format!("a step does one thing: {value}")),
        }
    }

    /// `METHOD` and the path as it is written.
    pub fn target(&self) -> Result<(&str, &str), String> {
        let text = self.request.as_deref().unwrap_or_default();
        text.split_once(' ')
            .filter(|(_, path)| path.starts_with(['/', '@']))
            .ok_or_else(|| format!("not METHOD PATH: {text:?}"))
    }

    /// What is sent, if anything. `filler` completes an apply that does not say its kind.
    pub fn payload(&self, filler: Option<(&str, &str)>) -> Result<Option<Body>, String> {
        let json = |value: &Value, media_type| Body { bytes: value.to_string().into_bytes(), media_type };
        let own = "application/json";
        Ok(if let Some(value) = &self.body {
            Some(json(value, own))
        } else if let Some(text) = &self.text {
            Some(Body { bytes: text.clone().into_bytes(), media_type: own })
        } else if let Some(text) = &self.base64 {
            use base64::Engine;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| error.to_string())?;
            Some(Body { bytes, media_type: own })
        } else if let Some(filled) = &self.filled {
            let text = [filled.before.as_str(), &filled.text.repeat(filled.times), &filled.after].concat();
            Some(Body { bytes: text.into_bytes(), media_type: own })
        } else if let Some(value) = &self.merge {
            Some(json(value, "application/merge-patch+json"))
        } else if let Some(value) = &self.strategic {
            Some(json(value, "application/strategic-merge-patch+json"))
        } else if let Some(value) = &self.jsonpatch {
            Some(json(value, "application/json-patch+json"))
        } else if let Some(value) = &self.apply {
            let mut value = value.clone();
            if let (Some((version, kind)), Some(map)) = (filler, value.as_object_mut()) {
                map.entry("apiVersion").or_insert_with(|| json!(version));
                map.entry("kind").or_insert_with(|| json!(kind));
            }
            Some(json(&value, "application/apply-patch+yaml"))
        } else {
            None
        })
    }

    /// Headers that say who asks.
    pub fn identity_headers(&self) -> Result<Vec<(String, String)>, String> {
        let Some(identity) = &self.identity else { return Ok(Vec::new()) };
        if let Some(user) = identity.as_str() {
            return Ok(vec![("impersonate-user".to_owned(), user.to_owned())]);
        }
        let map = identity.as_object().ok_or("`as` is a name or an object")?;
        let mut headers = Vec::new();
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| format!("not a text: {value}"));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for (key, value) in map {
            match key.as_str() {
                "user" => headers.push(("impersonate-user".to_owned(), text(value)?)),
                "uid" => headers.push(("impersonate-uid".to_owned(), text(value)?)),
                "groups" => {
                    for group in list(value) {
                        headers.push(("impersonate-group".to_owned(), text(&group)?));
                    }
                }
                "extra" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        for one in list(value) {
                            headers.push((format!("impersonate-extra-{name}"), text(&one)?));
                        }
                    }
                }
                other => return Err(format!("`as` has no {other:?}")),
            }
        }
        Ok(headers)
    }
}

/// Media types that have a short name in the catalogue.
pub fn accept(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "metadata" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "metadatalist" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "aggregated" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<Step, String> {
        Step::read(&value)
    }

    #[test]
    fn a_step_does_one_thing_with_one_body() {
        assert!(read(json!({"do": "GET /x"})).is_ok());
        for wrong in [json!({}), json!({"do": "GET /x", "close": "w"}), json!({"do": "GET /x", "odd": 1})] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        let two = read(json!({"do": "PATCH /x", "merge": {}, "apply": {}})).map(|_| ()).unwrap_err();
        assert!(two.starts_with("a step has one body"), "{two}");
        assert_eq!(
            read(json!({"do": "GET /x"})).and_then(|step| step.target().map(|t| format!("{t:?}"))),
            Ok("(\"GET\", \"/x\")".into())
        );
        assert!(read(json!({"do": "GET x"})).is_ok_and(|step| step.target().is_err()));
    }

    #[test]
    fn bodies_have_their_media_type() {
        let check = |step: Value, text: &str, media_type: &str| {
            let body = read(step.clone()).unwrap().payload(Some(("v1", "ConfigMap"))).unwrap().unwrap();
            assert_eq!(
                (String::from_utf8(body.bytes).unwrap().as_str(), body.media_type),
                (text, media_type),
                "{step}"
            );
        };
        let with = |key: &str, value: Value| json!({"do": "PATCH /x", key: value});
        check(with("body", json!({"a": 1})), "{\"a\":1}", "application/json");
        check(with("text", json!("{,")), "{,", "application/json");
        check(with("base64", json!("aGk=")), "hi", "application/json");
        check(
            with("filled", json!({"before": "[", "text": "ab", "times": 2, "after": "]"})),
            "[abab]",
            "application/json",
        );
        check(with("merge", json!({})), "{}", "application/merge-patch+json");
        check(with("strategic", json!({})), "{}", "application/strategic-merge-patch+json");
        check(with("jsonpatch", json!([])), "[]", "application/json-patch+json");
        let filled = "{\"a\":1,\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}";
        check(with("apply", json!({"a": 1})), filled, "application/apply-patch+yaml");
    }

    #[test]
    fn identities_become_headers() {
        let check = |identity: Value, expect: &[(&str, &str)]| {
            let headers = read(json!({"do": "GET /x", "as": identity})).unwrap().identity_headers().unwrap();
            let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(headers, expect);
        };
        check(json!("bob"), &[("impersonate-user", "bob")]);
        check(
            json!({"user": "bob", "groups": ["a", "b"], "extra": {"scopes": "x"}}),
            &[
                ("impersonate-extra-scopes", "x"),
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
                ("impersonate-user", "bob"),
            ],
        );
    }
}
