//! One step that asks the server something: what goes out, what came back, and what of it is not as expected.
//!
//! It builds requests from steps and keeps count of what they leave in the cluster. It decides nothing about order.

use crate::connect::{self, Credentials, Server};
use crate::expect::{Expect, Reply, describe};
use crate::step::{Step, accept};
use crate::template::{self, Fixtures, Variables};
use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

const QUERY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b',').remove(b'/');

/// Why a behaviour does not hold.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// The request, or what else was done.
    pub what: String,
    pub unmet: Vec<String>,
    pub got: String,
}

impl Failure {
    /// The step itself cannot be done.
    pub fn of_step(what: impl Into<String>, error: impl Into<String>) -> Self {
        Self { what: what.into(), unmet: vec![error.into()], got: String::new() }
    }
}

/// What a behaviour leaves in the cluster, for cleaning up.
#[derive(Debug, Default)]
pub struct Traces {
    /// Paths of objects outside the behaviour's namespaces.
    pub outside: Mutex<BTreeSet<String>>,
    /// Paths of objects that were seen with finalizers.
    pub held: Mutex<BTreeSet<String>>,
}

/// A request that can be sent more than once.
pub struct Prepared {
    method: http::Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    who: Credentials,
    pub expect: Expect,
}

impl Prepared {
    /// `namespace` is what `@kind` means by default.
    pub fn new(step: &Step, namespace: &str, fixtures: &Fixtures) -> Result<Self, String> {
        let (method, written) = step.target()?;
        let mut path = template::place(written, step.namespace.as_deref().unwrap_or(namespace), fixtures)?;
        for (key, value) in queries(step) {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&format!("{}={}", utf8_percent_encode(&key, QUERY), utf8_percent_encode(&value, QUERY)));
        }
        let kind =
            written.trim_start_matches('@').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let filler = fixtures.get(kind).map(|fixture| (fixture.version.as_str(), fixture.kind.as_str()));
        let payload = step.payload(filler)?;
        let mut headers = vec![
            ("accept".to_owned(), accept(step.accept.as_deref().unwrap_or("json")).to_owned()),
            ("user-agent".to_owned(), "gantry-catalogue".to_owned()),
        ];
        if let Some(payload) = &payload {
            headers.push(("content-type".to_owned(), payload.media_type.to_owned()));
        }
        for (name, value) in &step.headers {
            let name = name.to_ascii_lowercase();
            headers.retain(|(key, _)| *key != name);
            headers.push((name, value.clone()));
        }
        headers.extend(step.identity_headers()?);
        let who = match (&step.token, step.anonymous) {
            (Some(token), _) => Credentials::Token(token.clone()),
            (None, true) => Credentials::None,
            (None, false) => Credentials::Own,
        };
        Ok(Self {
            method: method.parse().map_err(|_| format!("not a method: {method}"))?,
            path,
            headers,
            body: payload.map(|payload| Bytes::from(payload.bytes)).unwrap_or_default(),
            who,
            expect: Expect::read(step.expect.as_ref())?,
        })
    }

    fn builder(&self) -> http::request::Builder {
        let mut builder = http::Request::builder().method(self.method.clone());
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        builder
    }

    /// The request for a person.
    pub fn describe(&self) -> String {
        let quiet = ["accept: application/json", "user-agent: gantry-catalogue", "content-type: application/json"];
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let headers: Vec<String> = headers.filter(|line| !quiet.contains(&line.as_str())).collect();
        let body = String::from_utf8_lossy(&self.body);
        let short: String = body.chars().take(600).collect();
        let more = if short.len() < body.len() { format!("… ({} bytes)", body.len()) } else { String::new() };
        let headers = if headers.is_empty() { String::new() } else { format!(" [{}]", headers.join("; ")) };
        format!("{} {}{headers} {short}{more}", self.method, self.path).trim_end().to_owned()
    }

    pub async fn open(&self, server: &Server) -> Result<Response<Incoming>, Failure> {
        let opened = server.open(&self.who, self.builder(), &self.path, self.body.clone()).await;
        opened.map_err(|error| Failure::of_step(self.describe(), format!("{error:#}")))
    }

    /// Sends, and remembers what stays behind. The answer may be unlike what is expected.
    pub async fn send(&self, server: &Server, namespaces: &[String], traces: &Traces) -> Result<Reply, Failure> {
        let answer = self.open(server).await?;
        let reply =
            connect::read(answer).await.map_err(|error| Failure::of_step(self.describe(), format!("{error:#}")))?;
        if self.method != http::Method::GET && self.method != http::Method::DELETE && reply.status < 300 {
            self.remember(&reply, namespaces, traces);
        }
        Ok(reply)
    }

    pub fn judge(&self, reply: &Reply) -> Result<(), Failure> {
        let unmet = self.expect.unmet(reply);
        if unmet.is_empty() { Ok(()) } else { Err(Failure { what: self.describe(), unmet, got: describe(reply) }) }
    }

    fn remember(&self, reply: &Reply, namespaces: &[String], traces: &Traces) {
        let metadata = &reply.value["metadata"];
        let (Some(name), true) = (metadata["name"].as_str(), metadata["uid"].is_string()) else { return };
        if self.path.contains("dryRun") {
            return;
        }
        let place = self.path.split('?').next().unwrap_or_default();
        // A write to a subresource is a write to what stands before it.
        let path = if self.method == http::Method::POST {
            format!("{place}/{name}")
        } else {
            let before_subresource = place.find(&format!("/{name}/")).map_or(place.len(), |at| at + name.len() + 1);
            place[..before_subresource].to_owned()
        };
        let inside = namespaces.iter().any(|namespace| path.contains(&format!("/namespaces/{namespace}/")));
        if !inside {
            traces.outside.lock().expect("no holder panics").insert(path.clone());
        }
        if metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty()) {
            traces.held.lock().expect("no holder panics").insert(path);
        }
    }
}

fn queries(step: &Step) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut all: Vec<(String, String)> = Vec::new();
    for (key, value) in &step.query {
        match value {
            Value::Array(values) => all.extend(values.iter().map(|value| (key.clone(), text(value)))),
            value => all.push((key.clone(), text(value))),
        }
    }
    if let Some(manager) = &step.manager {
        all.push(("fieldManager".to_owned(), manager.clone()));
    }
    if step.force {
        all.push(("force".to_owned(), "true".to_owned()));
    }
    if step.watch.is_some() {
        all.push(("watch".to_owned(), "true".to_owned()));
    }
    all
}

/// The variables that a step takes from its answer.
pub fn captures(step: &Step, reply: &Reply) -> Result<Variables, String> {
    let mut taken = Variables::new();
    for (name, path) in &step.capture {
        let value = reply.find(path)?.ok_or_else(|| format!("nothing at {path} to keep as ${name}"))?;
        taken.insert(name.clone(), value);
    }
    Ok(taken)
}

/// `make: KIND NAME` as the request that it stands for.
pub fn made(step: &Value, make: &str) -> Result<Value, String> {
    let (kind, name) = make.split_once(' ').ok_or_else(|| format!("make: KIND NAME, not {make:?}"))?;
    let mut request = step.clone();
    let map = request.as_object_mut().ok_or("a step is an object")?;
    map.remove("make");
    let mut body = map.remove("with").unwrap_or_else(|| json!({}));
    body["<use>"] = json!(kind);
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["name"] = json!(name);
    map.insert("do".to_owned(), json!(format!("POST @{kind}")));
    map.insert("body".to_owned(), body);
    map.entry("expect").or_insert_with(|| json!(201));
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Fixture;
    use std::collections::BTreeMap;

    fn fixtures() -> Fixtures {
        let map = Fixture {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            cluster: false,
            object: Default::default(),
        };
        BTreeMap::from([("configmap".to_owned(), map)])
    }

    fn check(step: Value, expect: &str) {
        let expanded = template::expand(&step, &fixtures()).unwrap();
        let prepared = Prepared::new(&Step::read(&expanded).unwrap(), "n", &fixtures()).unwrap();
        assert_eq!(prepared.describe(), expect);
    }

    #[test]
    fn steps_become_requests() {
        check(json!({"do": "GET /version"}), "GET /version");
        check(
            json!({"do": "GET @configmap?a=b", "query": {"labelSelector": "x in (a,b)", "limit": 2}, "watch": "w"}),
            "GET /api/v1/namespaces/n/configmaps?a=b&labelSelector=x%20in%20%28a,b%29&limit=2&watch=true",
        );
        check(
            json!({"do": "PATCH @configmap/a", "apply": {"x": 1}, "manager": "m", "force": true, "in": "o", "accept": "yaml", "as": "bob"}),
            "PATCH /api/v1/namespaces/o/configmaps/a?fieldManager=m&force=true [accept: application/yaml; content-type: application/apply-patch+yaml; impersonate-user: bob] {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"x\":1}",
        );
        check(
            json!({"do": "POST /x", "text": "{", "headers": {"Content-Type": "text/plain"}}),
            "POST /x [content-type: text/plain] {",
        );
        let make = made(
            &json!({"make": "configmap a", "with": {"metadata": {"labels": {"l": "v"}}, "data": {}}}),
            "configmap a",
        )
        .unwrap();
        check(
            make,
            "POST /api/v1/namespaces/n/configmaps {\"apiVersion\":\"v1\",\"data\":{},\"kind\":\"ConfigMap\",\"metadata\":{\"labels\":{\"l\":\"v\"},\"name\":\"a\"}}",
        );
    }

    #[test]
    fn what_stays_behind_is_remembered() {
        let check = |step: Value, metadata: Value, outside: &[&str], held: &[&str]| {
            let prepared = Prepared::new(&Step::read(&step).unwrap(), "n", &fixtures()).unwrap();
            let traces = Traces::default();
            prepared.remember(
                &Reply { value: json!({ "metadata": metadata }), ..Reply::default() },
                &["n".into()],
                &traces,
            );
            let all = |set: &Mutex<BTreeSet<String>>| set.lock().unwrap().iter().cloned().collect::<Vec<_>>();
            assert_eq!(
                (all(&traces.outside), all(&traces.held)),
                (outside.iter().map(|s| (*s).to_owned()).collect(), held.iter().map(|s| (*s).to_owned()).collect()),
                "{step}"
            );
        };
        let named = json!({"name": "a", "uid": "u"});
        check(json!({"do": "POST @configmap"}), named.clone(), &[], &[]);
        check(json!({"do": "POST /api/v1/nodes?x=y"}), named.clone(), &["/api/v1/nodes/a"], &[]);
        check(json!({"do": "POST /api/v1/nodes?dryRun=All"}), named.clone(), &[], &[]);
        check(json!({"do": "POST /apis/x/reviews"}), json!({"name": "a"}), &[], &[]);
        check(
            json!({"do": "PUT /api/v1/nodes/a/status"}),
            json!({"name": "a", "uid": "u", "finalizers": ["f"]}),
            &["/api/v1/nodes/a"],
            &["/api/v1/nodes/a"],
        );
        check(
            json!({"do": "PATCH @configmap/a"}),
            json!({"name": "a", "uid": "u", "finalizers": ["f"]}),
            &[],
            &["/api/v1/namespaces/n/configmaps/a"],
        );
    }
}
