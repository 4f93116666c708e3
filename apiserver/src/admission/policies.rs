//! ValidatingAdmissionPolicy: expressions of the cluster's operators that requests must fulfil. Decides which policies a request
//! must pass, with which parameters, and what a broken rule answers; what an expression means is `apimachinery::cel`'s.
//!
//! Everything it reads is in the watch cache, so it never waits. `authorizer` is not offered to expressions.

use super::Attributes;
use super::matching::{Asked, Conditions, Matching};
use crate::cache::Object;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::cel::{self, Decl, Program};
use gantry_apimachinery::kinds::{NAMESPACE, VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING};
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::meta::split_api_version;
use gantry_apimachinery::status::{Reason, Status};
use serde_json::{Value, json};
use std::sync::Arc;

type Compiled = Result<Program, String>;

/// A policy, read once for each version of it.
struct Policy {
    matching: Matching,
    conditions: Conditions,
    variables: Vec<(String, Compiled)>,
    validations: Vec<Validation>,
    /// What the audit log is told, by key.
    annotations: Vec<(String, Compiled)>,
    ignores_failure: bool,
    /// `apiVersion` and kind of its parameters.
    param_kind: Option<(String, String)>,
}

struct Validation {
    text: String,
    program: Compiled,
    message: String,
    message_program: Option<Compiled>,
    reason: String,
}

struct Binding {
    policy: String,
    matching: Matching,
    actions: Vec<String>,
    params: Value,
}

fn declared() -> Vec<(&'static str, Decl)> {
    let names = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
    names.into_iter().map(|name| (name, Decl::dynamic().clone())).collect()
}

impl Policy {
    fn read(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let declared = declared();
        let compile = |text: &str| cel::compile(text, &declared).map_err(|error| error.to_string());
        let validation = |one: &Value| Validation {
            text: str_at(one, "expression").to_owned(),
            program: compile(str_at(one, "expression")),
            message: str_at(one, "message").to_owned(),
            message_program: one["messageExpression"].as_str().map(compile),
            reason: str_at(one, "reason").to_owned(),
        };
        let variable = |one: &Value| (str_at(one, "name").to_owned(), compile(str_at(one, "expression")));
        let kind = &spec["paramKind"];
        Self {
            matching: Matching::read(&spec["matchConstraints"], "resourceRules"),
            conditions: Conditions::read(spec, &declared),
            variables: items(spec, "variables").iter().map(variable).collect(),
            validations: items(spec, "validations").iter().map(validation).collect(),
            annotations: items(spec, "auditAnnotations")
                .iter()
                .map(|one| (str_at(one, "key").to_owned(), compile(str_at(one, "valueExpression"))))
                .collect(),
            ignores_failure: str_at(spec, "failurePolicy") == "Ignore",
            param_kind: kind
                .is_object()
                .then(|| (str_at(kind, "apiVersion").to_owned(), str_at(kind, "kind").to_owned())),
        }
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = items(spec, "validationActions").iter().filter_map(Value::as_str).map(str::to_owned);
        Self {
            policy: str_at(spec, "policyName").to_owned(),
            matching: Matching::read(&spec["matchResources"], "resourceRules"),
            actions: actions.collect(),
            params: spec["paramRef"].clone(),
        }
    }
}

/// What one binding makes of a request.
enum Verdict {
    Passed,
    Refused {
        message: String,
        reason: String,
    },
    /// The policy could not be asked.
    Failed(String),
}

/// Refuses what a policy with the action `Deny` refuses; others warn, or tell the audit log. `object` is `None` for a delete.
pub fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<()> {
    let call = attributes.call;
    let bindings = call.core.stored_kind(&VALIDATING_ADMISSION_POLICY_BINDING);
    if bindings.resource.is_empty() || call.kind().group == "admissionregistration.k8s.io" {
        return Ok(());
    }
    let mut asked = None;
    for (name, object_of) in &bindings.resource.snapshot().tree {
        let binding = object_of.derived(Binding::read);
        let Some(policy_object) = call.core.cached(&VALIDATING_ADMISSION_POLICY, "", &binding.policy) else { continue };
        let policy = policy_object.derived(Policy::read);
        if !policy.matching.matches(attributes, object, false) || !binding.matching.matches(attributes, object, true) {
            continue;
        }
        let asked = asked.get_or_insert_with(|| (Asked::of(attributes, object), namespace(attributes)));
        let all = params(attributes, policy, binding);
        if call.audit.is_some() && !policy.annotations.is_empty() {
            for params in all.iter().flatten() {
                for (key, text) in annotations(policy, &asked.0, &asked.1, params) {
                    call.annotate(&format!("{}/{key}", binding.policy), text);
                }
            }
        }
        let verdict = match all {
            Ok(all) => all
                .iter()
                .map(|params| judge(policy, &asked.0, &asked.1, params))
                .find(|v| !matches!(v, Verdict::Passed)),
            Err(why) => Some(Verdict::Failed(why)),
        };
        let (message, reason) = match verdict {
            None | Some(Verdict::Passed) => continue,
            Some(Verdict::Failed(_)) if policy.ignores_failure => continue,
            Some(Verdict::Failed(why)) => (why, String::new()),
            Some(Verdict::Refused { message, reason }) => (message, reason),
        };
        let who = format!("ValidatingAdmissionPolicy '{}' with binding '{name}'", binding.policy);
        let acts = |action: &str| binding.actions.iter().any(|one| one == action);
        if acts("Audit") {
            let failure = json!([{"message": message, "policy": binding.policy, "binding": name, "validationActions": binding.actions}]);
            call.annotate("validation.policy.admission.k8s.io/validation_failure", failure.to_string());
        }
        if acts("Warn") {
            call.warn([format!("Validation failed for {who}: {message}")]);
        }
        if acts("Deny") {
            return Err(refusal(attributes, &format!("{who} denied request: {message}"), &reason).into());
        }
    }
    Ok(())
}

fn refusal(attributes: &Attributes<'_>, why: &str, reason: &str) -> Status {
    let mut status = Status::forbidden(&attributes.call.kind().resource(), attributes.name, why);
    status.reason = match reason {
        "Unauthorized" => Reason::Unauthorized,
        "Forbidden" => Reason::Forbidden,
        "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
        _ => Reason::Invalid,
    };
    status.code = status.reason.code();
    status
}

fn namespace(attributes: &Attributes<'_>) -> Value {
    let call = attributes.call;
    if !call.kind().namespaced || call.kind() == &NAMESPACE {
        return Value::Null;
    }
    call.core.cached(&NAMESPACE, "", call.namespace).and_then(|object| object.value().ok()).unwrap_or_default()
}

/// The parameters that a binding names: one null when its policy takes none.
fn params(attributes: &Attributes<'_>, policy: &Policy, binding: &Binding) -> Result<Vec<Value>, String> {
    let Some((api_version, kind)) = &policy.param_kind else { return Ok(vec![Value::Null]) };
    let call = attributes.call;
    if !binding.params.is_object() {
        return Ok(vec![Value::Null]);
    }
    let (group, version) = split_api_version(api_version);
    let registry = call.core.registry();
    let known = registry.kinds().iter().find(|one| one.group == group && one.version == version && one.kind == kind);
    let served = known.and_then(|known| registry.find(known.group, known.version, known.plural));
    let served = served
        .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{api_version}, Kind={kind}'"))?;
    let given = str_at(&binding.params, "namespace");
    let namespace = match (served.kind.namespaced, given) {
        (false, _) => "",
        (true, "") => call.namespace,
        (true, given) => given,
    };
    let path = |name: &str| if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let found: Vec<Arc<Object>> = match str_at(&binding.params, "name") {
        "" => {
            let selector =
                Selector::from_json(Some(&binding.params["selector"])).unwrap_or_else(|_| Selector::nothing());
            let tree = served.resource.snapshot().tree;
            let inside = |object: &&Arc<Object>| namespace.is_empty() || &*object.namespace == namespace;
            tree.values().filter(inside).filter(|object| selector.matches(&object.labels)).cloned().collect()
        }
        name => served.resource.get(&path(name)).into_iter().collect(),
    };
    if found.is_empty() {
        return match str_at(&binding.params, "parameterNotFoundAction") {
            "Allow" => Ok(Vec::new()),
            _ => Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()),
        };
    }
    found.iter().map(|object| object.value().map_err(|error| error.to_string())).collect()
}

/// What the expressions of a policy see.
struct Scope<'a> {
    asked: &'a Asked,
    namespace: &'a Value,
    params: &'a Value,
    variables: Value,
}

impl<'a> Scope<'a> {
    /// `None` when the policy's conditions do not hold.
    fn of(policy: &Policy, asked: &'a Asked, namespace: &'a Value, params: &'a Value) -> Result<Option<Self>, String> {
        let mut scope = Self { asked, namespace, params, variables: Value::Null };
        if !policy.conditions.hold(&scope.names())? {
            return Ok(None);
        }
        let mut composed = Value::Object(serde_json::Map::new());
        for (name, program) in &policy.variables {
            // One that fails is missed only by those who use it.
            scope.variables = composed;
            let value = program.as_ref().ok().and_then(|program| scope.value(program).ok());
            composed = std::mem::take(&mut scope.variables);
            if let Some(value) = value {
                composed[name] = value;
            }
        }
        scope.variables = composed;
        Ok(Some(scope))
    }

    fn names(&self) -> [(&'static str, &Value); 6] {
        [
            ("object", &self.asked.object),
            ("oldObject", &self.asked.old),
            ("request", &self.asked.request),
            ("params", self.params),
            ("namespaceObject", self.namespace),
            ("variables", &self.variables),
        ]
    }

    fn value(&self, program: &Program) -> Result<Value, String> {
        cel::evaluate(program, &self.names()).map_err(|error| error.to_string())
    }
}

fn judge(policy: &Policy, asked: &Asked, namespace: &Value, params: &Value) -> Verdict {
    let scope = match Scope::of(policy, asked, namespace, params) {
        Ok(Some(scope)) => scope,
        Ok(None) => return Verdict::Passed,
        Err(why) => return Verdict::Failed(why),
    };
    for validation in &policy.validations {
        let outcome = match &validation.program {
            Ok(program) => scope.value(program),
            Err(error) => Err(error.clone()),
        };
        match outcome {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => {
                let worded = match &validation.message_program {
                    Some(Ok(program)) => scope.value(program).ok().and_then(|text| text.as_str().map(str::to_owned)),
                    _ => None,
                };
                let message =
                    worded.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| match validation.message.trim() {
                        "" => format!("failed expression: {}", validation.text.trim()),
                        message => message.to_owned(),
                    });
                return Verdict::Refused { message, reason: validation.reason.clone() };
            }
            Ok(_) => return Verdict::Failed(format!("expression '{}' is not true or false", validation.text.trim())),
            Err(error) => {
                let text = validation.text.trim();
                return Verdict::Failed(format!("expression '{text}' resulted in error: {error}"));
            }
        }
    }
    Verdict::Passed
}

/// What a policy has to say to the audit log: keys without the policy's name, and texts. One that fails says nothing.
fn annotations(policy: &Policy, asked: &Asked, namespace: &Value, params: &Value) -> Vec<(String, String)> {
    let Ok(Some(scope)) = Scope::of(policy, asked, namespace, params) else { return Vec::new() };
    let said = policy.annotations.iter().filter_map(|(key, program)| {
        let text = scope.value(program.as_ref().ok()?).ok()?.as_str()?.trim().to_owned();
        (!text.is_empty()).then(|| (key.clone(), text))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_judges_objects_with_variables_and_parameters() {
        let policy = Policy::read(&json!({"spec": {
            "variables": [{"name": "most", "expression": "params == null ? 5 : params.data.most"}],
            "matchConditions": [{"name": "c", "expression": "object.spec.size > 0"}],
            "validations": [{"expression": "object.spec.size <= int(variables.most)", "messageExpression": "'at most ' + string(variables.most)"},
                {"expression": "object.spec.name != 'x'", "reason": "Forbidden"}],
        }}));
        let check = |spec: Value, params: Value, expect: &str| {
            let asked = Asked { object: json!({ "spec": spec }), old: Value::Null, request: json!({}) };
            let got = match judge(&policy, &asked, &Value::Null, &params) {
                Verdict::Passed => "passed".to_owned(),
                Verdict::Refused { message, reason } => format!("{message} [{reason}]"),
                Verdict::Failed(why) => format!("failed {why}"),
            };
            assert!(got.starts_with(expect), "{got}");
        };
        check(json!({"size": 5, "name": "a"}), Value::Null, "passed");
        check(json!({"size": 6, "name": "a"}), Value::Null, "at most 5 []");
        check(json!({"size": 6, "name": "a"}), json!({"data": {"most": "7"}}), "passed");
        check(json!({"size": 1, "name": "x"}), Value::Null, "failed expression: object.spec.name != 'x' [Forbidden]");
        check(json!({"size": 1}), Value::Null, "failed expression 'object.spec.name");
        check(json!({"size": 0}), Value::Null, "passed");
    }

    #[test]
    fn a_policy_tells_the_audit_log_what_it_can() {
        let policy = Policy::read(
            &json!({"spec": {"matchConditions": [{"name": "c", "expression": "object.spec.size > 0"}],
            "variables": [{"name": "twice", "expression": "object.spec.size * 2"}],
            "auditAnnotations": [{"key": "twice", "valueExpression": "'it is ' + string(variables.twice)"},
                {"key": "none", "valueExpression": "null"}, {"key": "broken", "valueExpression": "object.spec.missing"}]}}),
        );
        let said = |size: i64| {
            let asked = Asked { object: json!({"spec": {"size": size}}), old: Value::Null, request: json!({}) };
            annotations(&policy, &asked, &Value::Null, &Value::Null)
        };
        assert_eq!(said(2), [("twice".to_owned(), "it is 4".to_owned())]);
        assert_eq!(said(0), []);
    }
}
