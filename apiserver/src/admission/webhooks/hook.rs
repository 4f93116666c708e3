//! One webhook as its configuration has it. Decides whom a request concerns; the rules' meaning is `matching`'s.

use crate::admission::Attributes;
use crate::admission::matching::{Asked, Conditions, Matching, conditions_hold, declared};
use crate::cache::Group;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::outbound::{Endpoint, OutboundError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

pub struct Hook {
    pub name: String,
    pub endpoint: Result<Endpoint, OutboundError>,
    pub within: Duration,
    /// Without an answer the request goes on.
    pub ignores_failure: bool,
    /// It is asked again when others changed the object after it.
    pub reinvoked: bool,
    matching: Matching,
    conditions: Conditions,
}

impl Hook {
    pub fn read(hook: &Value, group: &Arc<Group>) -> Self {
        Self {
            name: str_at(hook, "name").to_owned(),
            endpoint: Endpoint::read(&hook["clientConfig"], group),
            within: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failure: str_at(hook, "failurePolicy") == "Ignore",
            reinvoked: str_at(hook, "reinvocationPolicy") == "IfNeeded",
            matching: Matching::read(hook, "rules"),
            conditions: Conditions::read(hook, &declared()),
        }
    }

    /// Whether this webhook wants to hear of the request.
    pub fn concerns(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<bool> {
        if !self.matching.matches(attributes, object, false) {
            return Ok(false);
        }
        if self.conditions.is_empty() {
            return Ok(true);
        }
        conditions_hold(&self.conditions, &Asked::of(attributes, object), self.ignores_failure, &self.name)
    }
}
