//! Conversion by a webhook (`ConversionReview` v1). Decides what is asked and which answers are accepted; never how objects convert.

use crate::cache::Group;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use crate::outbound::{Endpoint, OutboundError};
use gantry_apimachinery::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// As Kubernetes: conversions have a fixed time.
const WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Webhook {
    endpoint: Result<Endpoint, OutboundError>,
    kind: String,
}

impl Webhook {
    /// The webhook of a definition, if it converts by one. An unusable address fails each conversion, with its reason.
    pub fn read(definition: &Value, group: &Arc<Group>) -> Option<Self> {
        let conversion = &definition["spec"]["conversion"];
        if str_at(conversion, "strategy") != "Webhook" {
            return None;
        }
        let endpoint = Endpoint::read(&conversion["webhook"]["clientConfig"], group);
        Some(Self { endpoint, kind: str_at(definition, "spec.names.kind").to_owned() })
    }

    /// The objects in that `apiVersion`; those that have it already are not sent.
    pub async fn convert(&self, mut objects: Vec<Value>, to: &str) -> Outcome<Vec<Value>> {
        let (at, asked): (Vec<usize>, Vec<Value>) = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| object["apiVersion"] != to)
            .map(|(at, o)| (at, o.clone()))
            .unzip();
        if asked.is_empty() {
            return Ok(objects);
        }
        let failed = |why: String| {
            Status::internal(format!(
                "conversion webhook for {}, Kind={} failed: {why}",
                asked[0]["apiVersion"].as_str().unwrap_or(""),
                self.kind
            ))
        };
        let endpoint = self.endpoint.as_ref().map_err(|error| failed(error.to_string()))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let question = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": asked}});
        let answer = endpoint.ask(&question, WITHIN).await.map_err(|error| failed(error.to_string()))?;
        let converted = accepted(&answer, &uid, &asked, to).map_err(failed)?;
        for (at, object) in at.into_iter().zip(converted) {
            objects[at] = object;
        }
        Ok(objects)
    }
}

/// The converted objects of an answer, or what is wrong with it. Metadata stays as it was, but for labels and annotations.
fn accepted(answer: &Value, uid: &str, asked: &[Value], to: &str) -> Result<Vec<Value>, String> {
    let response = &answer["response"];
    if str_at(response, "uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", str_at(response, "uid")));
    }
    if response["result"]["status"] != "Success" {
        return Err(match str_at(response, "result.message") {
            "" => "response.result.status was not Success".to_owned(),
            message => message.to_owned(),
        });
    }
    let converted = items(response, "convertedObjects");
    if converted.len() != asked.len() {
        return Err(format!("expected {} converted objects, got {}", asked.len(), converted.len()));
    }
    asked
        .iter()
        .zip(converted)
        .enumerate()
        .map(|(at, (before, after))| {
            one(before, after, to).map_err(|why| format!("invalid converted object at index {at}: {why}"))
        })
        .collect()
}

fn one(before: &Value, after: &Value, to: &str) -> Result<Value, String> {
    if after["apiVersion"] != to {
        return Err(format!("invalid apiVersion, expected={to}"));
    }
    for (path, what) in [
        ("kind", "kind"),
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.uid", "metadata.uid"),
    ] {
        if str_at(before, path) != str_at(after, path) {
            return Err(format!("invalid {what}, expected={}", str_at(before, path)));
        }
    }
    let mut converted = after.clone();
    let mut metadata = before["metadata"].clone();
    for field in ["labels", "annotations"] {
        match after["metadata"].get(field).filter(|value| value.is_object()) {
            Some(value) => metadata[field] = value.clone(),
            None => {
                metadata.as_object_mut().map(|metadata| metadata.remove(field));
            }
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        let before = json!({"apiVersion": "e.com/v1", "kind": "W", "metadata": {"name": "a", "uid": "u", "labels": {"x": "1"}}, "spec": {"n": 1}});
        let after = json!({"apiVersion": "e.com/v2", "kind": "W", "metadata": {"name": "a", "uid": "u", "labels": {"y": "2"}, "finalizers": ["z"]}, "spec": {"m": 1}});
        let answer = |objects: Value| json!({"response": {"uid": "7", "result": {"status": "Success"}, "convertedObjects": objects}});
        let check = |answer: Value, expect: Result<Value, &str>| {
            let got = accepted(&answer, "7", std::slice::from_ref(&before), "e.com/v2");
            assert_eq!(got.map(|mut all| all.remove(0)), expect.map_err(str::to_owned));
        };
        let expect = json!({"apiVersion": "e.com/v2", "kind": "W", "metadata": {"name": "a", "uid": "u", "labels": {"y": "2"}}, "spec": {"m": 1}});
        check(answer(json!([after])), Ok(expect));
        check(answer(json!([])), Err("expected 1 converted objects, got 0"));
        let mut renamed = after.clone();
        renamed["metadata"]["name"] = "b".into();
        check(answer(json!([renamed])), Err("invalid converted object at index 0: invalid metadata.name, expected=a"));
        check(json!({"response": {"uid": "8"}}), Err("expected response.uid=\"7\", got \"8\""));
        let refused = json!({"response": {"uid": "7", "result": {"status": "Failure", "message": "no"}}});
        check(refused, Err("no"));
    }
}
