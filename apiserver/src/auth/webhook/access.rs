//! Permissions that another server knows: what nothing here allows is put to it as a `SubjectAccessReview`. Decides how the question
//! reads and how long the answer counts; whatever is no clear yes is a no.

use super::Asked;
use crate::auth::UserInfo;
use crate::auth::answers::Answers;
use crate::auth::authz::{Attributes, Decision, Grant};
use crate::config::AccessWebhook;
use crate::core::StartError;
use crate::kinds::value::{bool_at, str_at};
use serde_json::{Value, json};

const MOST_KEPT: usize = 8_192;

pub struct AccessReviews {
    asked: Asked,
    kept: Answers<Decision>,
    allowed_ms: u64,
    denied_ms: u64,
}

impl AccessReviews {
    pub fn new(config: &AccessWebhook) -> Result<Self, StartError> {
        let asked = Asked::new(&config.server);
        let asked = asked.map_err(|error| StartError::Webhook("authorization", error.to_string()))?;
        let (allowed_ms, denied_ms) = (config.allowed_s * 1_000, config.denied_s * 1_000);
        Ok(Self { asked, kept: Answers::new(MOST_KEPT), allowed_ms, denied_ms })
    }

    pub async fn decide(&self, user: &UserInfo, what: &Attributes<'_>, now_ms: u64) -> Decision {
        let question = question(user, what);
        let key = Answers::<Decision>::key(question.to_string().as_bytes());
        if let Some(known) = self.kept.get(&key, now_ms) {
            return known;
        }
        match self.asked.ask(&question).await {
            Ok(answer) => {
                let decision = read(&answer);
                let for_ms = if decision.is_allowed() { self.allowed_ms } else { self.denied_ms };
                self.kept.put(key, decision.clone(), now_ms, for_ms);
                decision
            }
            Err(error) => {
                tracing::warn!(%error, "the authorization webhook did not answer");
                Decision::Deny("the authorization webhook did not answer".to_owned())
            }
        }
    }
}

fn question(user: &UserInfo, what: &Attributes<'_>) -> Value {
    let mut spec = json!({"user": user.username, "groups": user.groups});
    if !user.uid.is_empty() {
        spec["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    match what.path {
        Some(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": what.verb}),
        None => {
            let mut resource = json!({"verb": what.verb, "resource": what.resource});
            let parts = [
                ("group", what.group),
                ("version", what.version),
                ("namespace", what.namespace),
                ("subresource", what.subresource),
                ("name", what.name),
            ];
            for (field, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
                resource[field] = text.into();
            }
            if let Some(node) = what.node_selector {
                let one = json!({"key": "spec.nodeName", "operator": "In", "values": [node]});
                resource["fieldSelector"] = json!({"requirements": [one]});
            }
            spec["resourceAttributes"] = resource;
        }
    }
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

fn read(answer: &Value) -> Decision {
    let (status, reason) = (&answer["status"], str_at(answer, "status.reason").to_owned());
    let said = str_at(answer, "kind") == "SubjectAccessReview" && bool_at(status, "allowed");
    if said && !bool_at(status, "denied") { Decision::Allow(Grant::Webhook(reason)) } else { Decision::Deny(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_reviews() {
        let mut jane = UserInfo::new("jane", &[]);
        let what = Attributes {
            verb: "list",
            version: "v1",
            resource: "pods",
            namespace: "n",
            node_selector: Some("m"),
            ..Attributes::default()
        };
        let expect = json!({"user": "jane", "groups": ["system:authenticated"], "resourceAttributes": {"verb": "list", "version": "v1",
            "resource": "pods", "namespace": "n", "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["m"]}]}}});
        assert_eq!(question(&jane, &what)["spec"], expect);
        jane.uid = "7".into();
        jane.extra.insert("k".into(), vec!["v".into()]);
        let path = Attributes { verb: "get", path: Some("/metrics"), ..Attributes::default() };
        let expect = json!({"user": "jane", "uid": "7", "extra": {"k": ["v"]}, "groups": ["system:authenticated"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        assert_eq!(question(&jane, &path)["spec"], expect);
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let check = |status: Value, expect: bool| {
            let answer = json!({"kind": "SubjectAccessReview", "status": status});
            assert_eq!(read(&answer).is_allowed(), expect, "{answer}");
        };
        check(json!({"allowed": true}), true);
        check(json!({"allowed": true, "denied": true}), false);
        check(json!({"allowed": false}), false);
        check(json!({"allowed": "true"}), false);
        check(json!({}), false);
        assert!(!read(&json!({"kind": "Status", "status": {"allowed": true}})).is_allowed());
        assert_eq!(read(&json!({"status": {"reason": "no"}})), Decision::Deny("no".into()));
    }
}
