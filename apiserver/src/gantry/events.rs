//! `POST /apis/gantry.dev/v1/events`: up to 256 core/v1 Events in one request, each made as if it came alone. One whose name is taken
//! is one more of the same: its count, time and message are brought up to date.
//!
//! Decides what a batch of events answers. It never decides who may write events where: the caller asks for each namespace.

use crate::auth::UserInfo;
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::call::{Call, WriteOptions};
use crate::rest::create::create;
use crate::rest::update::update;
use futures::future::join_all;
use gantry_apimachinery::kinds::EVENT;
use gantry_apimachinery::status::{Reason, Status};
use gantry_apimachinery::time::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const MAX_ITEMS: usize = 256;
/// Each is asked about.
pub const MAX_NAMESPACES: usize = 64;
/// What a repeat changes.
const TOLD_AGAIN: [&str; 4] = ["count", "lastTimestamp", "message", "series"];

/// Who writes, and how.
pub struct Writer<'a> {
    pub core: &'a Core,
    pub user: &'a UserInfo,
    pub options: WriteOptions,
    pub now: Timestamp,
    pub entropy: u64,
}

/// Events that were sent together.
pub struct Events(Vec<Value>);

impl Events {
    /// From a decoded `EventBatch`.
    pub fn read(mut body: Value) -> Outcome<Self> {
        let Value::Array(items) = body["items"].take() else {
            return Err(Status::bad_request("EventBatch: items: required").into());
        };
        if items.len() > MAX_ITEMS {
            return Err(Status::bad_request(format!("items: at most {MAX_ITEMS} events at once")).into());
        }
        Ok(Self(items))
    }

    pub fn namespaces(&self) -> BTreeSet<&str> {
        self.0.iter().map(|event| str_at(event, "metadata.namespace")).collect()
    }

    /// Writes them side by side. `allowed` says whether the writer may write events in a namespace.
    pub async fn write(self, writer: &Writer<'_>, allowed: impl Fn(&str) -> Outcome<()>) -> Value {
        let outcomes = self.0.into_iter().enumerate().map(|(at, event)| {
            let allowed = allowed(str_at(&event, "metadata.namespace"));
            let entropy = writer.entropy.wrapping_add(at as u64);
            async move {
                allowed?;
                one(writer, event, entropy).await
            }
        });
        let outcomes = join_all(outcomes).await.into_iter().map(|outcome| match outcome {
            Ok(code) => json!({"code": code}),
            Err(status) => json!({"code": status.code(), "reason": status.reason, "message": status.message}),
        });
        json!({"apiVersion": "gantry.dev/v1", "kind": "EventBatchResult", "items": outcomes.collect::<Vec<_>>()})
    }
}

/// The code that it answers.
async fn one(writer: &Writer<'_>, mut event: Value, entropy: u64) -> Outcome<u16> {
    let [namespace, name] = ["namespace", "name"].map(|field| str_at(&event["metadata"], field).to_owned());
    if namespace.is_empty() || name.is_empty() {
        return Err(Status::bad_request("metadata: an event of a batch names its namespace and itself").into());
    }
    event["apiVersion"] = EVENT.api_version().into();
    event["kind"] = EVENT.kind.into();
    let call = Call {
        core: writer.core,
        served: writer.core.stored_kind(&EVENT),
        namespace: &namespace,
        name: "",
        subresource: None,
        user: writer.user,
        options: writer.options.clone(),
        now: writer.now,
        entropy,
        warnings: Mutex::default(),
        audit: None,
    };
    let repeated: Vec<_> = TOLD_AGAIN.iter().filter_map(|field| Some((*field, event.get(*field)?.clone()))).collect();
    match create(&call, event).await {
        Err(status) if status.reason == Reason::AlreadyExists => {}
        made => return made.map(|_| 201),
    }
    let told_again = |old: &Value| {
        let mut new = old.clone();
        for (field, value) in &repeated {
            new[*field] = value.clone();
        }
        Ok(new)
    };
    update(&call.on(&namespace, &name), &told_again).await.map(|_| 200)
}
