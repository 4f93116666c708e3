//! One request as the audit log tells it. Decides what an event says at each stage; whether it is written at all is the policy's.

use super::Audit;
use super::policy::{Asked, Level, Stage, Verdict};
use crate::auth::UserInfo;
use crate::http::target::{ResourcePath, Target};
use crate::kinds::value::str_at;
use gantry_apimachinery::status::Status;
use gantry_apimachinery::time::Timestamp;
use http::{HeaderMap, Method, Uri, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Longer texts of a client's own are cut.
const MOST_TEXT: usize = 4_096;
/// Annotations of one request.
const MOST_ANNOTATIONS: usize = 64;

/// A request that may be written down.
pub struct Record {
    audit: Arc<Audit>,
    method: Method,
    target: Target,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    verdict: Verdict,
    /// What all events of the request say.
    event: Map<String, Value>,
    annotations: BTreeMap<String, String>,
    /// The caller is known, and the last event was written.
    begun: bool,
    ended: bool,
}

/// A client that went away while its request was carried out; nobody defines a code for it, proxies use this one.
const WENT_AWAY: u16 = 499;

impl Drop for Record {
    /// What was begun may be done although nobody waits for the answer: it is told, too.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.begun && !state.ended {
            let status = json!({"metadata": {}, "code": WENT_AWAY, "status": "Failure",
                "message": "the client went away before it was answered; what it asked for may have been done"});
            state.event.entry("responseStatus").or_insert(status);
            self.write(Stage::ResponseComplete, None);
        }
    }
}

impl Record {
    pub fn new(
        audit: Arc<Audit>,
        id: &str,
        request: &http::request::Parts,
        target: &Target,
        peer: Option<IpAddr>,
    ) -> Self {
        let mut event = Map::new();
        event.insert("kind".into(), "Event".into());
        event.insert("apiVersion".into(), "audit.k8s.io/v1".into());
        event.insert("auditID".into(), id.into());
        event.insert("requestURI".into(), uri(&request.uri).into());
        event.insert("verb".into(), verb(target, &request.method).into());
        let agent = text(&request.headers, &header::USER_AGENT);
        if !agent.is_empty() {
            event.insert("userAgent".into(), agent.into());
        }
        event.insert("sourceIPs".into(), sources(&request.headers, peer).into());
        if let Target::Resource { path, .. } = target {
            event.insert("objectRef".into(), reference(path));
        }
        event.insert("requestReceivedTimestamp".into(), audit.now().to_micro_string().into());
        let state = Mutex::new(State { event, ..State::default() });
        Self { audit, method: request.method.clone(), target: target.clone(), state }
    }

    /// Whoever calls is known now, or cannot be told.
    pub fn begin(&self, user: Option<&UserInfo>) {
        let asked = asked(&self.target, &self.method, user);
        let mut state = self.state.lock();
        state.verdict = self.audit.policy.verdict(&asked);
        state.begun = true;
        let level = state.verdict.level.as_str();
        state.event.insert("level".into(), level.into());
        state.event.insert("user".into(), user.map_or_else(|| json!({}), shown));
        drop(state);
        self.write(Stage::RequestReceived, None);
    }

    pub fn level(&self) -> Level {
        self.state.lock().verdict.level
    }

    /// Acts as somebody else.
    pub fn impersonates(&self, user: &UserInfo) {
        self.state.lock().event.insert("impersonatedUser".into(), shown(user));
    }

    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        let mut state = self.state.lock();
        if state.verdict.level > Level::None && state.annotations.len() < MOST_ANNOTATIONS {
            // As in Kubernetes, the first one says it.
            state.annotations.entry(key.to_owned()).or_insert_with(|| value.into());
        }
    }

    /// What was sent, as JSON. Its name counts at every level; the rest only where the policy wants it.
    pub fn sent(&self, mut object: Value) {
        let mut state = self.state.lock();
        if let Some(reference) = state.event.get_mut("objectRef") {
            for (field, path) in
                [("name", "metadata.name"), ("uid", "metadata.uid"), ("resourceVersion", "metadata.resourceVersion")]
            {
                if reference.get(field).is_none() && !str_at(&object, path).is_empty() {
                    reference[field] = str_at(&object, path).into();
                }
            }
        }
        if state.verdict.level >= Level::Request {
            self.trim(&state, &mut object);
            state.event.insert("requestObject".into(), object);
        }
    }

    /// What was answered, as JSON.
    pub fn answered(&self, mut object: Value) {
        let mut state = self.state.lock();
        if state.verdict.level >= Level::RequestResponse {
            self.trim(&state, &mut object);
            state.event.insert("responseObject".into(), object);
        }
    }

    fn trim(&self, state: &State, object: &mut Value) {
        if state.verdict.omit_managed_fields {
            without_managed_fields(object);
        }
    }

    /// The answer's head.
    pub fn outcome(&self, code: u16, failure: Option<&Status>) {
        let mut status = json!({"metadata": {}, "code": code});
        if let Some(failure) = failure {
            status["status"] = "Failure".into();
            status["message"] = cut(&failure.message).into();
            status["reason"] = failure.reason.as_str().into();
        }
        self.state.lock().event.insert("responseStatus".into(), status);
    }

    /// Puts an event into the log's queue.
    pub fn write(&self, stage: Stage, note: Option<(&str, &str)>) {
        if let Some((key, value)) = note {
            self.annotate(key, value);
        }
        let mut state = self.state.lock();
        state.ended |= stage == Stage::ResponseComplete;
        if state.verdict.writes(stage) {
            let line = line(&state.event, stage, self.audit.now(), &state.annotations);
            drop(state);
            self.audit.log.put(line);
        }
    }
}

fn line(event: &Map<String, Value>, stage: Stage, now: Timestamp, annotations: &BTreeMap<String, String>) -> String {
    let mut event = event.clone();
    event.insert("stage".into(), stage.as_str().into());
    event.insert("stageTimestamp".into(), now.to_micro_string().into());
    if !annotations.is_empty() {
        event.insert("annotations".into(), json!(annotations));
    }
    Value::Object(event).to_string()
}

fn verb(target: &Target, method: &Method) -> String {
    match target {
        Target::Resource { verb: Some(verb), .. } => verb.as_str().to_owned(),
        _ => method.as_str().to_lowercase(),
    }
}

fn asked<'a>(target: &'a Target, method: &Method, user: Option<&'a UserInfo>) -> Asked<'a> {
    match target {
        Target::NonResource { path } => {
            let verb = match *method {
                Method::GET => "get",
                Method::HEAD => "head",
                Method::POST => "post",
                Method::PUT => "put",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            };
            Asked { user, verb, path: Some(path), ..Asked::default() }
        }
        Target::Resource { verb, path } => Asked {
            user,
            verb: verb.map_or("", crate::http::Verb::as_str),
            path: None,
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: &path.namespace,
            name: &path.name,
        },
    }
}

fn reference(path: &ResourcePath) -> Value {
    let mut reference = json!({});
    let parts = [
        ("resource", &path.resource),
        ("namespace", &path.namespace),
        ("name", &path.name),
        ("apiGroup", &path.group),
        ("apiVersion", &path.version),
        ("subresource", &path.subresource),
    ];
    for (field, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
        reference[field] = text.as_str().into();
    }
    reference
}

fn shown(user: &UserInfo) -> Value {
    serde_json::to_value(user).unwrap_or_default()
}

fn uri(uri: &Uri) -> String {
    cut(uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str))
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> String {
    cut(headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or(""))
}

fn cut(text: &str) -> String {
    text.chars().take(MOST_TEXT).collect()
}

/// Where the request says it came from, and where it came from.
fn sources(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let said = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let said = said.flat_map(|text| text.split(',')).filter_map(|one| one.trim().parse::<IpAddr>().ok()).take(16);
    let mut all: Vec<String> = said.map(|one| one.to_string()).collect();
    if let Some(peer) = peer.map(|one| one.to_string()).filter(|one| !all.contains(one)) {
        all.push(peer);
    }
    all
}

fn without_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        without_managed_fields(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_addresses_each_once() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "192.0.2.1, odd, 192.0.2.2".parse().unwrap());
        assert_eq!(sources(&headers, Some([192, 0, 2, 2].into())), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(sources(&HeaderMap::new(), Some([127, 0, 0, 1].into())), ["127.0.0.1"]);
    }

    #[test]
    fn managed_fields_go_from_lists_too() {
        let mut list = json!({"metadata": {}, "items": [{"metadata": {"name": "a", "managedFields": [1]}}]});
        without_managed_fields(&mut list);
        assert_eq!(list, json!({"metadata": {}, "items": [{"metadata": {"name": "a"}}]}));
        let mut text = json!("no object");
        without_managed_fields(&mut text);
    }
}
