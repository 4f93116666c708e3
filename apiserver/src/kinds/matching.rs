//! Which requests a webhook or an admission policy is for: rules, selectors and conditions. Decides what they mean when unsaid and
//! what is well formed; never whether a request matches.

use super::pod::validate::{if_set_one_of, one_of};
use super::selectors;
use super::value::{at, default, items, items_mut, str_at};
use gantry_apimachinery::cel::{self, Decl};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::{Value, json};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;

/// Everything, as equivalent resources have it.
pub fn defaults(matching: &mut Value, rules: &[&str]) {
    default(matching, "matchPolicy", "Equivalent");
    default(matching, "namespaceSelector", json!({}));
    default(matching, "objectSelector", json!({}));
    for list in rules {
        items_mut(matching, list).iter_mut().for_each(|rule| default(rule, "scope", "*"));
    }
}

/// The selectors and the policy that webhooks and policies share.
pub fn selection(matching: &Value, path: &str, errors: &mut FieldErrors) {
    if_set_one_of(matching, "matchPolicy", path, &["Equivalent", "Exact"], errors);
    for field in ["namespaceSelector", "objectSelector"] {
        selectors::label_selector(&matching[field], &format!("{path}.{field}"), errors);
    }
}

/// A policy's or a binding's `MatchResources`.
pub fn resources(matching: &Value, path: &str, errors: &mut FieldErrors) {
    selection(matching, path, errors);
    for list in ["resourceRules", "excludeResourceRules"] {
        for (position, rule) in items(matching, list).iter().enumerate() {
            let path = format!("{path}.{list}[{position}]");
            self::rule(rule, &path, errors);
            let given = items(rule, "resourceNames");
            for (index, name) in given.iter().enumerate() {
                let (text, path) = (name.as_str().unwrap_or_default(), format!("{path}.resourceNames[{index}]"));
                if let Err(why) = names::path_segment(text) {
                    errors.invalid(path.as_str(), text, why);
                }
                if given[..index].contains(name) {
                    errors.duplicate(path, text);
                }
            }
        }
    }
}

pub fn rule(rule: &Value, path: &str, errors: &mut FieldErrors) {
    list(rule, "operations", path, "operations", errors);
    for (position, operation) in items(rule, "operations").iter().enumerate() {
        if !OPERATIONS.iter().any(|known| operation == known) {
            errors.not_supported(format!("{path}.operations[{position}]"), operation.clone(), OPERATIONS);
        }
    }
    list(rule, "apiGroups", path, "API groups", errors);
    list(rule, "apiVersions", path, "API versions", errors);
    no_empty(rule, "apiVersions", path, errors);
    no_empty(rule, "resources", path, errors);
    resource_names(rule, &format!("{path}.resources"), errors);
    if_set_one_of(rule, "scope", path, SCOPES, errors);
}

/// Something is named; what names everything stands alone.
fn list(rule: &Value, field: &str, path: &str, what: &str, errors: &mut FieldErrors) {
    let all = items(rule, field);
    if all.is_empty() {
        errors.required(format!("{path}.{field}"));
    }
    if all.len() > 1 && all.iter().any(|one| one == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.invalid(format!("{path}.{field}"), rule[field].clone(), why);
    }
}

fn no_empty(rule: &Value, field: &str, path: &str, errors: &mut FieldErrors) {
    for (position, _) in items(rule, field).iter().enumerate().filter(|(_, one)| *one == "") {
        errors.required(format!("{path}.{field}[{position}]"));
    }
}

/// A resource that another entry already covers is a mistake.
fn resource_names(rule: &Value, path: &str, errors: &mut FieldErrors) {
    let all: Vec<&str> = items(rule, "resources").iter().filter_map(Value::as_str).collect();
    if all.is_empty() {
        return errors.required(path);
    }
    if all.len() > 1 && all.contains(&"*/*") {
        return errors.invalid(
            path,
            rule["resources"].clone(),
            "if '*/*' is present, must not specify other resources",
        );
    }
    let plain = all.iter().filter(|one| !one.contains('/')).count();
    if plain > 1 && all.contains(&"*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, rule["resources"].clone(), why);
    }
    for (position, one) in all.iter().enumerate() {
        let Some((resource, sub)) = one.split_once('/') else { continue };
        let covered = |pattern: String| pattern != **one && all.contains(&pattern.as_str());
        if covered(format!("*/{sub}")) {
            errors.invalid(
                format!("{path}[{position}]"),
                *one,
                format!("if '*/{sub}' is present, must not specify {one}"),
            );
        }
        if covered(format!("{resource}/*")) {
            errors.invalid(
                format!("{path}[{position}]"),
                *one,
                format!("if '{resource}/*' is present, must not specify {one}"),
            );
        }
    }
}

/// What an expression may come to.
#[derive(Clone, Copy, Debug)]
pub enum Yields {
    Bool,
    /// As `Bool`, or what is known only when it runs.
    BoolOrUnknown,
    String,
    StringOrNull,
    Anything,
}

impl Yields {
    fn takes(self, result: &cel::Type) -> bool {
        match self {
            Self::Bool => matches!(result, cel::Type::Bool),
            Self::BoolOrUnknown => matches!(result, cel::Type::Bool | cel::Type::Dyn),
            Self::String => matches!(result, cel::Type::String),
            Self::StringOrNull => matches!(result, cel::Type::String | cel::Type::Null | cel::Type::Dyn),
            Self::Anything => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Bool => "must evaluate to bool",
            Self::BoolOrUnknown => "must evaluate to bool or the unknown type",
            Self::String => "must evaluate to string",
            Self::StringOrNull => "must evaluate to one of string, null",
            Self::Anything => "",
        }
    }
}

/// What every expression about a request may refer to.
pub const OF_REQUESTS: [&str; 3] = ["object", "oldObject", "request"];

/// Expressions that must all hold, each with a name of its own. They may refer to `variables`.
pub fn conditions(object: &Value, path: &str, variables: &[&str], errors: &mut FieldErrors) {
    let (all, path) = (items(object, "matchConditions"), format!("{path}.matchConditions"));
    if all.len() > MAX_CONDITIONS {
        errors.too_many(path.as_str(), all.len(), MAX_CONDITIONS);
    }
    for (position, condition) in all.iter().enumerate() {
        let (name, path) = (str_at(condition, "name"), format!("{path}[{position}]"));
        if str_at(condition, "expression").trim().is_empty() {
            errors.required(format!("{path}.expression"));
        } else {
            expression(condition, "expression", &path, variables, Yields::Bool, errors);
        }
        if name.is_empty() {
            errors.required(format!("{path}.name"));
        } else if let Err(why) = names::qualified_name(name) {
            errors.invalid(format!("{path}.name"), name, why);
        }
        if all[..position].iter().any(|other| other["name"] == condition["name"]) {
            errors.duplicate(format!("{path}.name"), name);
        }
    }
}

/// An expression that is there means something and comes to what is wanted.
pub fn expression(
    object: &Value,
    field: &str,
    path: &str,
    variables: &[&str],
    yields: Yields,
    errors: &mut FieldErrors,
) {
    let text = str_at(object, field);
    // What the authoriser is asked is known where expressions run.
    if text.trim().is_empty() || text.contains("authorizer") {
        return;
    }
    let known: Vec<(&str, Decl)> = variables.iter().map(|name| (*name, Decl::dynamic().clone())).collect();
    let path = format!("{path}.{field}");
    match cel::compile(text, &known) {
        Err(why) => errors.invalid(path, text, format!("compilation failed: {why}")),
        Ok(program) if !yields.takes(program.result()) => errors.invalid(path, text, yields.words()),
        Ok(_) => {}
    }
}

pub fn failure_policy(object: &Value, path: &str, errors: &mut FieldErrors) {
    if at(object, "failurePolicy").is_some() {
        one_of(object, "failurePolicy", path, &["Fail", "Ignore"], errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: Value) -> String {
        let mut errors = FieldErrors::new();
        super::rule(&rule, "r", &mut errors);
        errors.to_string()
    }

    #[test]
    fn a_rule_names_something_and_nothing_twice() {
        let rule = |resources: Value| json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
        let check = |resources: Value, expect: &str| assert_eq!(found(rule(resources)), expect);
        check(json!(["pods", "pods/status"]), "[]");
        check(json!([]), "r.resources: Required value");
        check(json!([""]), "r.resources[0]: Required value");
        check(
            json!(["*/*", "pods"]),
            "r.resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        );
        check(
            json!(["*", "pods"]),
            "r.resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
        );
        check(
            json!(["pods/*", "pods/log"]),
            "r.resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
        );
        let mut all = rule(json!(["pods"]));
        all["operations"] = json!(["*", "READ"]);
        all["scope"] = json!("World");
        let expect = "[r.operations: Invalid value: [\"*\",\"READ\"]: if '*' is present, must not specify other operations, \
             r.operations[1]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\", \
             r.scope: Unsupported value: \"World\": supported values: \"*\", \"Cluster\", \"Namespaced\"]";
        assert_eq!(found(all), expect);
        let expect = "[r.operations: Required value, r.apiGroups: Required value, r.apiVersions: Required value, r.resources: Required value]";
        assert_eq!(found(json!({})), expect);
    }

    #[test]
    fn conditions_have_names_of_their_own() {
        let mut errors = FieldErrors::new();
        let all = json!({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}, {"name": "b c", "expression": "true"}]});
        conditions(&all, "w", &OF_REQUESTS, &mut errors);
        let text = errors.to_string();
        let expect = "[w.matchConditions[1].expression: Required value, w.matchConditions[1].name: Duplicate value: \"a\", \
             w.matchConditions[2].name: Invalid value: \"b c\"";
        assert!(text.starts_with(expect), "{text}");
    }

    #[test]
    fn expressions_mean_something() {
        let check = |text: &str, yields: Yields, expect: &str| {
            let mut errors = FieldErrors::new();
            expression(&json!({"e": text}), "e", "p", &OF_REQUESTS, yields, &mut errors);
            let text = errors.to_string();
            assert!(text.starts_with(expect), "{text}");
        };
        check("object.spec.replicas <= 5", Yields::Bool, "[]");
        check(
            "object.spec.replicas",
            Yields::Bool,
            "p.e: Invalid value: \"object.spec.replicas\": must evaluate to bool",
        );
        check("'a'", Yields::String, "[]");
        check("1", Yields::StringOrNull, "p.e: Invalid value: \"1\": must evaluate to one of string, null");
        check("object.", Yields::Anything, "p.e: Invalid value: \"object.\": compilation failed: ERROR: <input>:1:");
        check(
            "params.x == 1",
            Yields::Bool,
            "p.e: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1:",
        );
        check("authorizer.group('').resource('pods').check('get').allowed()", Yields::Bool, "[]");
    }
}
