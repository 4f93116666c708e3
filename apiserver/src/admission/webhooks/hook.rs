//! One webhook as its configuration has it. Decides whom a request concerns: rules, selectors, conditions.

use crate::admission::{Attributes, Operation};
use crate::cache::Group;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use crate::outbound::{Endpoint, OutboundError};
use gantry_apimachinery::kinds::NAMESPACE;
use gantry_apimachinery::labels::Selector;
use serde_json::Value;
use std::collections::BTreeMap;
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
    rules: Vec<Rule>,
    namespaces: Selector,
    objects: Selector,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Other versions of the same resource count too.
    equivalent: bool,
}

impl Hook {
    pub fn read(hook: &Value, group: &Arc<Group>) -> Self {
        let selector = |field: &str| match &hook[field] {
            absent if absent.as_object().is_none_or(serde_json::Map::is_empty) => Selector::everything(),
            selector => Selector::from_json(Some(selector)).unwrap_or_else(|_| Selector::nothing()),
        };
        let equivalent = str_at(hook, "matchPolicy") != "Exact";
        Self {
            name: str_at(hook, "name").to_owned(),
            endpoint: Endpoint::read(&hook["clientConfig"], group),
            within: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failure: str_at(hook, "failurePolicy") == "Ignore",
            reinvoked: str_at(hook, "reinvocationPolicy") == "IfNeeded",
            rules: items(hook, "rules").iter().map(|rule| Rule::read(rule, equivalent)).collect(),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether this webhook wants to hear of the request.
    pub fn concerns(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<bool> {
        if !self.rules.iter().any(|rule| rule.matches(attributes)) || !self.selects_namespace(attributes, object) {
            return Ok(false);
        }
        let by_object = |object: Option<&Value>| object.is_some_and(|object| self.objects.matches(&labels(object)));
        Ok(self.objects.is_everything() || by_object(object) || by_object(attributes.old))
    }

    fn selects_namespace(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> bool {
        if self.namespaces.is_everything() {
            return true;
        }
        let call = attributes.call;
        if call.kind() == &NAMESPACE {
            return object.or(attributes.old).is_some_and(|own| self.namespaces.matches(&labels(own)));
        }
        if !call.kind().namespaced {
            return true;
        }
        match call.core.cached(&NAMESPACE, "", call.namespace) {
            Some(namespace) => self.namespaces.matches(&namespace.labels),
            // The request fails for its own reason.
            None => false,
        }
    }
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let pairs = object["metadata"]["labels"].as_object();
    pairs.into_iter().flatten().map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").to_owned())).collect()
}

impl Rule {
    fn read(rule: &Value, equivalent: bool) -> Self {
        let list = |field: &str| items(rule, field).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: str_at(rule, "scope").to_owned(),
            equivalent,
        }
    }

    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let (kind, subresource) = (attributes.call.kind(), attributes.call.subresource.unwrap_or(""));
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let scope = match self.scope.as_str() {
            "Namespaced" => kind.namespaced,
            "Cluster" => !kind.namespaced,
            _ => true,
        };
        scope
            && has(&self.operations, attributes.operation.as_str())
            && has(&self.groups, kind.group)
            && (self.equivalent || has(&self.versions, kind.version))
            && self.resources.iter().any(|resource| resource_matches(resource, kind.plural, subresource))
    }
}

/// `pods`, `pods/status`, `pods/*`, `*`, `*/*`, `*/scale`.
pub fn resource_matches(rule: &str, plural: &str, subresource: &str) -> bool {
    let (resource, sub) = rule.split_once('/').map_or((rule, None), |(resource, sub)| (resource, Some(sub)));
    (resource == "*" || resource == plural)
        && match sub {
            None => subresource.is_empty(),
            Some("*") => true,
            Some(sub) => sub == subresource,
        }
}

impl Operation {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_and_their_parts() {
        let rows = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "status", true),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "status", false),
            ("nodes", "pods", "", false),
        ];
        for (rule, plural, sub, expect) in rows {
            assert_eq!(resource_matches(rule, plural, sub), expect, "{rule} {plural}/{sub}");
        }
    }
}
