//! Tokens that another server knows: a `TokenReview` is posted to it. Decides what its answer means and how long it counts.

use super::Asked;
use crate::auth::UserInfo;
use crate::auth::answers::Answers;
use crate::auth::authn::Authenticated;
use crate::config::TokenWebhook;
use crate::core::StartError;
use crate::kinds::value::{bool_at, items, str_at};
use crate::outbound::OutboundError;
use serde_json::{Value, json};

const MOST_KEPT: usize = 4_096;

pub struct TokenReviews {
    asked: Asked,
    kept: Answers<Option<Authenticated>>,
    for_ms: u64,
}

impl TokenReviews {
    pub fn new(config: &TokenWebhook) -> Result<Self, StartError> {
        let asked = Asked::new(&config.server);
        let asked = asked.map_err(|error| StartError::Webhook("authentication", error.to_string()))?;
        Ok(Self { asked, kept: Answers::new(MOST_KEPT), for_ms: config.cache_s * 1_000 })
    }

    /// Whom the token stands for. `own`: the audience of this server. A server that does not answer knows nobody.
    pub async fn user(&self, token: &str, audiences: &[&str], own: &str, now_ms: u64) -> Option<Authenticated> {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences}});
        let key = Answers::<Option<Authenticated>>::key(question.to_string().as_bytes());
        if let Some(known) = self.kept.get(&key, now_ms) {
            return known;
        }
        match self.asked.ask(&question).await {
            Ok(answer) => {
                let found = read(&answer, audiences, own);
                self.kept.put(key, found.clone(), now_ms, self.for_ms);
                found
            }
            Err(error) => {
                // What it says may repeat the token.
                match error {
                    OutboundError::Refused { code, .. } => {
                        tracing::warn!(code, "the authentication webhook refused to review a token");
                    }
                    error => tracing::warn!(%error, "the authentication webhook did not answer"),
                }
                None
            }
        }
    }
}

fn read(answer: &Value, audiences: &[&str], own: &str) -> Option<Authenticated> {
    let status = &answer["status"];
    let name = str_at(status, "user.username");
    if str_at(answer, "kind") != "TokenReview" || !bool_at(status, "authenticated") || name.is_empty() {
        return None;
    }
    let said = items(status, "audiences");
    let meant = |asked: &str| if said.is_empty() { asked == own } else { said.iter().any(|one| one == asked) };
    let meant: Vec<String> = audiences.iter().filter(|asked| meant(asked)).map(|one| (*one).to_owned()).collect();
    if meant.is_empty() {
        return None;
    }
    let groups: Vec<&str> = items(status, "user.groups").iter().filter_map(Value::as_str).collect();
    let mut user = UserInfo::new(name, &groups);
    user.uid = str_at(status, "user.uid").to_owned();
    for (key, values) in status["user"]["extra"].as_object().into_iter().flatten() {
        let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        user.extra.insert(key.clone(), values.map(str::to_owned).collect());
    }
    Some(Authenticated { user, audiences: meant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_for_our_audience_counts() {
        let check = |change: &dyn Fn(&mut Value), audiences: &[&str], expect: Option<&str>| {
            let mut answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": {"authenticated": true,
                "user": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}}}});
            change(&mut answer);
            let found = read(&answer, audiences, "api");
            assert_eq!(
                found.map(|one| format!("{} {}", one.user.username, one.audiences.join(","))).as_deref(),
                expect
            );
        };
        check(&|_| {}, &["api"], Some("jane api"));
        check(&|_| {}, &["other"], None);
        check(&|a| a["status"]["audiences"] = json!(["other"]), &["api", "other"], Some("jane other"));
        check(&|a| a["status"]["audiences"] = json!(["else"]), &["api"], None);
        check(&|a| a["status"]["authenticated"] = "true".into(), &["api"], None);
        check(&|a| a["status"]["user"]["username"] = "".into(), &["api"], None);
        check(&|a| a["kind"] = "Status".into(), &["api"], None);
        check(&|a| *a = json!("garbage"), &["api"], None);
    }
}
