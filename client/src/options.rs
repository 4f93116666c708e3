//! What a request may ask for, as plain data, and its form on the wire. Never sends anything.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::query::Query;

/// Which objects a list returns, and how fresh it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `a=b,c in (d)`; empty selects everything.
    pub label_selector: String,
    /// `spec.nodeName=x`; empty selects everything.
    pub field_selector: String,
    /// At most this many items; 0 is no limit.
    pub limit: u32,
    /// Empty asks for the newest state; "0" accepts any.
    pub resource_version: String,
    /// The token that an earlier, limited list returned.
    pub continue_token: String,
}

impl ListOptions {
    /// All objects that carry these labels.
    pub fn labels(selector: impl Into<String>) -> Self {
        ListOptions { label_selector: selector.into(), ..Self::default() }
    }

    /// All objects whose fields match.
    pub fn fields(selector: impl Into<String>) -> Self {
        ListOptions { field_selector: selector.into(), ..Self::default() }
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query
            .push_some("labelSelector", &self.label_selector)
            .push_some("fieldSelector", &self.field_selector)
            .push_some("resourceVersion", &self.resource_version)
            .push_some("continue", &self.continue_token);
        if self.limit > 0 {
            query.push("limit", &self.limit.to_string());
        }
        query
    }
}

/// A list as the server answered it.
#[derive(Clone, Debug, Default)]
pub struct List<T> {
    pub items: Vec<T>,
    /// The store's revision that the list shows: a watch from here misses nothing.
    pub resource_version: String,
    /// Not empty when there is more.
    pub continue_token: String,
}

/// What happens to the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// How to delete, and under which preconditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds the object may take to stop; 0 deletes at once; `None` leaves it to the object.
    pub grace_period_seconds: Option<i64>,
    /// Delete only this very object (409 otherwise).
    pub uid: Option<String>,
    /// Delete only this very version (409 otherwise).
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Deletes only the object with this uid.
    pub fn uid(uid: impl Into<String>) -> Self {
        DeleteOptions { uid: Some(uid.into()), ..Self::default() }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(seconds) = self.grace_period_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(propagation);
        }
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        body
    }
}

/// A change to an object, in one of the four forms that the API takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7396.
    Merge(Value),
    /// Kubernetes' strategic merge, by merge keys.
    Strategic(Value),
    /// RFC 6902: an array of operations.
    Json(Value),
    /// Server-side apply.
    Apply { manager: String, force: bool, body: Value },
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Json(_) => "application/json-patch+json",
            Patch::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn body(&self) -> &Value {
        match self {
            Patch::Merge(body) | Patch::Strategic(body) | Patch::Json(body) | Patch::Apply { body, .. } => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_options_say_only_what_was_asked() {
        let check = |options: DeleteOptions, expect: Value| assert_eq!(options.body(), expect);
        check(DeleteOptions::default(), json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
        check(
            DeleteOptions {
                grace_period_seconds: Some(0),
                uid: Some("u".into()),
                resource_version: Some("7".into()),
                propagation: Some(Propagation::Foreground),
            },
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                "propagationPolicy": "Foreground", "preconditions": {"uid": "u", "resourceVersion": "7"}}),
        );
    }

    #[test]
    fn list_options_become_a_query() {
        let options = ListOptions { limit: 5, continue_token: "a b".into(), ..ListOptions::labels("x=y") };
        assert_eq!(options.query().as_str(), "?labelSelector=x%3Dy&continue=a%20b&limit=5");
    }
}
