//! Which requests a webhook or an admission policy is for: rules, selectors and conditions. Decides what matches; never what follows.

use super::{Attributes, Operation};
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::cel::{self, Decl, Program};
use gantry_apimachinery::kinds::NAMESPACE;
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub struct Matching {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Selector,
    objects: Selector,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
    /// Other versions of the same resource count too.
    equivalent: bool,
}

impl Matching {
    /// From a webhook or a `MatchResources`; `rules` is where its rules stand.
    pub fn read(matching: &Value, rules: &str) -> Self {
        let selector = |field: &str| match &matching[field] {
            absent if absent.as_object().is_none_or(serde_json::Map::is_empty) => Selector::everything(),
            selector => Selector::from_json(Some(selector)).unwrap_or_else(|_| Selector::nothing()),
        };
        let equivalent = str_at(matching, "matchPolicy") != "Exact";
        let read = |list: &str| items(matching, list).iter().map(|rule| Rule::read(rule, equivalent)).collect();
        Self {
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether the request is one of these. `without_rules`: what no rule at all means.
    pub fn matches(&self, attributes: &Attributes<'_>, object: Option<&Value>, without_rules: bool) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(attributes));
        let included = if self.rules.is_empty() { without_rules } else { any(&self.rules) };
        let chosen = |object: Option<&Value>| object.is_some_and(|object| self.objects.matches(&labels(object)));
        included
            && !any(&self.excluded)
            && self.selects_namespace(attributes, object)
            && (self.objects.is_everything() || chosen(object) || chosen(attributes.old))
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

pub fn labels(object: &Value) -> BTreeMap<String, String> {
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
            names: list("resourceNames"),
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
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
            && self.resources.iter().any(|resource| resource_matches(resource, kind.plural, subresource))
    }
}

/// `pods`, `pods/status`, `pods/*`, `*`, `*/*`, `*/scale`.
fn resource_matches(rule: &str, plural: &str, subresource: &str) -> bool {
    let (resource, sub) = rule.split_once('/').map_or((rule, None), |(resource, sub)| (resource, Some(sub)));
    (resource == "*" || resource == plural)
        && match sub {
            None => subresource.is_empty(),
            Some("*") => true,
            Some(sub) => sub == subresource,
        }
}

/// What expressions may ask of a request, as JSON.
pub struct Asked {
    pub object: Value,
    pub old: Value,
    pub request: Value,
}

impl Asked {
    pub fn of(attributes: &Attributes<'_>, object: Option<&Value>) -> Self {
        Self {
            object: object.cloned().unwrap_or_default(),
            old: attributes.old.cloned().unwrap_or_default(),
            request: request(attributes),
        }
    }
}

/// The request as reviews and expressions know it, without the objects.
pub fn request(attributes: &Attributes<'_>) -> Value {
    let call = attributes.call;
    let kind = call.kind();
    let subresource = call.subresource.unwrap_or("");
    let spoken = kind
        .subresource(subresource)
        .map_or((kind.group, kind.version, kind.kind), |sub| (sub.group, sub.version, sub.kind));
    let spoken = json!({"group": spoken.0, "version": spoken.1, "kind": spoken.2});
    let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let mut request = json!({
        "kind": spoken, "resource": resource, "requestKind": spoken, "requestResource": resource,
        "operation": attributes.operation.as_str(), "userInfo": call.user, "dryRun": call.options.dry_run,
        "options": options(attributes),
    });
    if !subresource.is_empty() {
        request["subResource"] = subresource.into();
        request["requestSubResource"] = subresource.into();
    }
    if !attributes.name.is_empty() {
        request["name"] = attributes.name.into();
    }
    if kind.namespaced {
        request["namespace"] = call.namespace.into();
    }
    request
}

fn options(attributes: &Attributes<'_>) -> Value {
    let call = attributes.call;
    let kind = match attributes.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if attributes.operation != Operation::Delete {
        options["fieldManager"] = call.options.field_manager.as_str().into();
    }
    if call.options.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// `matchConditions`: expressions that must all hold.
pub struct Conditions(Vec<(String, Result<Program, String>)>);

impl Conditions {
    pub fn read(owner: &Value, variables: &[(&str, Decl)]) -> Self {
        let condition = |condition: &Value| {
            let program = cel::compile(str_at(condition, "expression"), variables).map_err(|error| error.to_string());
            (str_at(condition, "name").to_owned(), program)
        };
        Self(items(owner, "matchConditions").iter().map(condition).collect())
    }

    /// Whether all hold. One that is false decides, whatever others fail; a failure alone is the owner's to judge.
    pub fn hold(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let mut failed = None;
        for (name, program) in &self.0 {
            let outcome = match program {
                Ok(program) => cel::evaluate(program, variables).map_err(|error| error.to_string()),
                Err(error) => Err(error.clone()),
            };
            match outcome {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => failed = failed.or(Some(format!("match condition {name:?} is not true or false"))),
                Err(error) => failed = failed.or(Some(format!("match condition {name:?}: {error}"))),
            }
        }
        failed.map_or(Ok(true), Err)
    }
}

/// The variables of webhooks' conditions.
pub fn declared() -> Vec<(&'static str, Decl)> {
    ["object", "oldObject", "request"].into_iter().map(|name| (name, Decl::dynamic().clone())).collect()
}

/// Whether a webhook's conditions hold; a failure counts by its failure policy.
pub fn conditions_hold(conditions: &Conditions, asked: &Asked, ignores_failure: bool, name: &str) -> Outcome<bool> {
    let variables = [("object", &asked.object), ("oldObject", &asked.old), ("request", &asked.request)];
    match conditions.hold(&variables) {
        Ok(hold) => Ok(hold),
        Err(_) if ignores_failure => Ok(false),
        Err(why) => Err(Status::internal(format!("failed to evaluate match conditions of {name:?}: {why}")).into()),
    }
}

impl Conditions {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    #[test]
    fn one_false_condition_decides() {
        let check = |expressions: &[&str], expect: Result<bool, &str>| {
            let list: Vec<Value> = expressions.iter().map(|text| json!({"name": "c", "expression": text})).collect();
            let conditions = Conditions::read(&json!({"matchConditions": list}), &declared());
            let (object, none) = (json!({"a": 1}), Value::Null);
            let held = conditions.hold(&[("object", &object), ("oldObject", &none), ("request", &none)]);
            assert_eq!(
                held.as_ref().map_err(|error| error.contains(expect.err().unwrap_or("?"))),
                expect.as_ref().map_err(|_| true)
            );
        };
        check(&[], Ok(true));
        check(&["object.a == 1"], Ok(true));
        check(&["object.a == 1", "object.a == 2"], Ok(false));
        check(&["object.b == 1", "object.a == 2"], Ok(false));
        check(&["object.b == 1"], Err("no such key"));
    }
}
