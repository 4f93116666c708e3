//! A server over in-memory stores, and requests to it. Decides nothing about what is right.

use bytes::Bytes;
use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apiserver::{ApiServer, Config, Stores, UserInfo};
use gantry_store::{MemStore, Store};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{Service, ServiceExt};

pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct Api {
    pub server: ApiServer,
    pub stores: Stores,
    pub user: UserInfo,
    config: Config,
    _stop: Arc<DropGuard>,
}

pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Reply {
    /// The body of a success; anything else fails the test.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {}", self.code, self.text);
        self.body
    }

    /// `code reason message`, as failures are compared.
    pub fn failure(&self) -> String {
        assert_eq!(self.body["kind"], "Status", "every failure is a Status: {}", self.text);
        assert_eq!(self.body["code"], self.code, "{}", self.text);
        format!(
            "{} {} {}",
            self.code,
            self.body["reason"].as_str().unwrap_or(""),
            self.body["message"].as_str().unwrap_or("")
        )
    }

    pub fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
    }
}

pub fn key_pair() -> rcgen::KeyPair {
    rcgen::KeyPair::generate().unwrap()
}

impl Api {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_clock(Arc::new(SystemClock), change).await
    }

    pub async fn with_clock(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Config)) -> Self {
        let key = key_pair();
        let mut config = Config {
            token_private_key: key.serialize_pem(),
            token_public_key: key.public_key_pem(),
            ..Config::default()
        };
        change(&mut config);
        let store = || Arc::new(MemStore::new());
        Self::over(config, Stores { state: store(), leases: store(), events: store() }, clock).await
    }

    /// Over that store of the state group.
    pub async fn over_state(state: Arc<dyn Store>) -> Self {
        let store = || Arc::new(MemStore::new());
        Self::on(Stores { state, leases: store(), events: store() }).await
    }

    /// Over stores that the test keeps.
    pub async fn on(stores: Stores) -> Self {
        let key = key_pair();
        let (token_private_key, token_public_key) = (key.serialize_pem(), key.public_key_pem());
        let config = Config { token_private_key, token_public_key, ..Config::default() };
        Self::over(config, stores, Arc::new(SystemClock)).await
    }

    async fn over(config: Config, stores: Stores, clock: Arc<dyn Clock>) -> Self {
        let server = ApiServer::with_clock(config.clone(), stores.clone(), clock).unwrap();
        let cancel = CancellationToken::new();
        server.start(cancel.clone()).await.unwrap();
        let user = UserInfo::new("kubernetes-admin", &["system:masters"]);
        Self { server, stores, user, config, _stop: Arc::new(cancel.drop_guard()) }
    }

    /// Another server over the same stores.
    pub async fn twin(&self) -> Self {
        Self::over(self.config.clone(), self.stores.clone(), Arc::new(SystemClock)).await
    }

    pub fn as_user(&self, name: &str, groups: &[&str]) -> Self {
        Self { user: UserInfo::new(name, groups), ..self.clone() }
    }

    pub async fn raw(&self, request: Request<Full<Bytes>>) -> http::Response<gantry_apiserver::http::Body> {
        let mut service = self.server.in_process(self.user.clone());
        let service = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service).await.unwrap();
        service.call(request).await.unwrap()
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.raw(request.body(Full::new(body.into())).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Reply { code: parts.status.as_u16(), headers: parts.headers, body, text }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    /// Asks until the answer is as wanted.
    pub async fn get_until(&self, path: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let asked = async {
            loop {
                let reply = self.get(path).await;
                if wanted(&reply) {
                    return reply;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{path} never became as wanted"))
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn patch(&self, kind: &str, path: &str, body: &Value) -> Reply {
        self.send(Method::PATCH, path, &[("content-type", kind)], body.to_string()).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Reply {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send(Method::DELETE, path, &[("content-type", "application/json")], body).await
    }

    pub async fn config_map(&self, name: &str, labels: Value) -> Value {
        self.post(CONFIG_MAPS, &json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}})).await.ok()
    }

    pub async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let request = Request::builder().uri(path).header("accept", accept).body(Full::default()).unwrap();
        let response = self.raw(request).await;
        assert_eq!(response.status(), 200, "{path}");
        Watch { body: response.into_body(), text: String::new(), ready: VecDeque::new() }
    }
}

/// A running watch.
pub struct Watch {
    body: gantry_apiserver::http::Body,
    text: String,
    ready: VecDeque<Value>,
}

impl Watch {
    /// The next event; `None` at the stream's end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event in time")?;
            self.text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
            while let Some(end) = self.text.find('\n') {
                let line: String = self.text.drain(..=end).collect();
                self.ready.push_back(serde_json::from_str(&line).unwrap());
            }
        }
    }

    /// `TYPE name` of the next event.
    pub async fn brief(&mut self) -> String {
        match self.next().await {
            None => "end".into(),
            Some(event) => format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap_or("")
            )
            .trim()
            .to_owned(),
        }
    }
}

pub fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
