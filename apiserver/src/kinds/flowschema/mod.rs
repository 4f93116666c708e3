//! What a FlowSchema means to the API: which requests it names, and that every rule names somebody and something. Which requests
//! match is decided by `fairness`.

use super::value::{at, bool_at, child, default, i64_at, items, remove, str_at};
use super::{Column, Ctx, Strategy, columns};
use crate::fairness::defaults::{mandatory, same};
use gantry_apimachinery::kinds::FLOW_SCHEMA;
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const DEFAULT_PRECEDENCE: i64 = 1_000;
const MAX_PRECEDENCE: i64 = 10_000;
const DISTINGUISHERS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// Kubernetes' mandatory schema, alone in the first place.
const EXEMPT: &str = "exempt";

pub struct FlowSchema;

impl Strategy for FlowSchema {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        none_if_zero(spec, "matchingPrecedence");
        default(spec, "matchingPrecedence", DEFAULT_PRECEDENCE);
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return check_conditions(new, errors);
        }
        let precedence = i64_at(new, "spec.matchingPrecedence").unwrap_or(0);
        let path = "spec.matchingPrecedence";
        if precedence <= 0 {
            errors.invalid(path, precedence, "must be a positive value");
        }
        if precedence > MAX_PRECEDENCE {
            errors.invalid(path, precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        if precedence == 1 && str_at(new, "metadata.name") != EXEMPT {
            errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        let method = str_at(new, "spec.distinguisherMethod.type");
        if at(new, "spec.distinguisherMethod").is_some_and(Value::is_object) && !DISTINGUISHERS.contains(&method) {
            errors.not_supported("spec.distinguisherMethod.type", method, DISTINGUISHERS);
        }
        check_level(new, errors);
        for (i, rule) in items(new, "spec.rules").iter().enumerate() {
            check_rule(rule, &format!("spec.rules[{i}]"), errors);
        }
        check_mandatory(new, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("PriorityLevel", "The priority level of its requests."),
            Column::number("MatchingPrecedence", "Its place in the order of matching; lower goes first."),
            Column::text("DistinguisherMethod", "What tells its flows apart."),
            Column::AGE,
            Column::text("MissingPL", "Whether its priority level is missing."),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let conditions = items(object, "status.conditions");
        let dangling = conditions.iter().find(|c| c["type"] == "Dangling").map_or("?", |c| str_at(c, "status"));
        let method = match str_at(object, "spec.distinguisherMethod.type") {
            "" => "<none>",
            method => method,
        };
        vec![
            columns::name(object),
            str_at(object, "spec.priorityLevelConfiguration.name").into(),
            i64_at(object, "spec.matchingPrecedence").unwrap_or(0).into(),
            method.into(),
            columns::age(object, now),
            dangling.into(),
        ]
    }
}

/// To Kubernetes a number that is zero was not given.
pub fn none_if_zero(object: &mut Value, field: &str) {
    if object[field] == 0 {
        remove(object, field);
    }
}

fn check_level(new: &Value, errors: &mut FieldErrors) {
    let path = "spec.priorityLevelConfiguration.name";
    let name = str_at(new, path);
    if name.is_empty() {
        errors.required_because(path, "must reference a priority level");
    } else if let Err(why) = names::dns1123_subdomain(name) {
        errors.invalid(path, name, why);
    }
}

fn check_mandatory(new: &Value, errors: &mut FieldErrors) {
    let name = str_at(new, "metadata.name");
    if mandatory(&FLOW_SCHEMA, name).is_some_and(|spec| !same(&new["spec"], spec)) {
        errors.invalid("spec", new["spec"].clone(), format!("spec of '{name}' must equal the fixed value"));
    }
}

/// Every condition has a type, and every type is there once.
pub fn check_conditions(new: &Value, errors: &mut FieldErrors) {
    let conditions = items(new, "status.conditions");
    for (i, condition) in conditions.iter().enumerate() {
        let (path, ty) = (format!("status.conditions[{i}].type"), str_at(condition, "type"));
        if conditions[..i].iter().any(|other| str_at(other, "type") == ty) {
            errors.duplicate(path.clone(), ty);
        }
        if ty.is_empty() {
            errors.required_because(path, "must not be empty");
        }
    }
}

fn check_rule(rule: &Value, path: &str, errors: &mut FieldErrors) {
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        errors.required_because(format!("{path}.subjects"), "subjects must contain at least one value");
    }
    for (i, subject) in subjects.iter().enumerate() {
        check_subject(subject, &format!("{path}.subjects[{i}]"), errors);
    }
    let (resources, paths) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        errors.required_because(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (i, rule) in resources.iter().enumerate() {
        check_resources(rule, &format!("{path}.resourceRules[{i}]"), errors);
    }
    for (i, rule) in paths.iter().enumerate() {
        check_paths(rule, &format!("{path}.nonResourceRules[{i}]"), errors);
    }
}

fn check_resources(rule: &Value, path: &str, errors: &mut FieldErrors) {
    check_verbs(rule, path, errors);
    for (list, one, others) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let missing = format!("resource rules must supply at least one {one}");
        listed(rule, list, &missing, others, path, errors);
    }
    if bool_at(rule, "clusterScope") && items(rule, "namespaces").is_empty() {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    for (i, namespace) in listed(rule, "namespaces", missing, "namespaces", path, errors).iter().enumerate() {
        if let Err(why) = names::dns1123_label(namespace) {
            let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
            errors.invalid(format!("{path}.namespaces[{i}]"), *namespace, why);
        }
    }
}

fn check_paths(rule: &Value, path: &str, errors: &mut FieldErrors) {
    check_verbs(rule, path, errors);
    let missing = "nonResourceURLs must contain at least one value";
    let urls = listed(rule, "nonResourceURLs", missing, "non-resource URLs", path, errors);
    for (i, url) in urls.iter().enumerate() {
        if let Some(why) = wrong_url(url) {
            errors.invalid(format!("{path}.nonResourceURLs[{i}]"), *url, why);
        }
    }
}

fn check_verbs(rule: &Value, path: &str, errors: &mut FieldErrors) {
    let verbs = listed(rule, "verbs", "verbs must contain at least one value", "verbs", path, errors);
    if verbs.iter().any(|verb| !VERBS.contains(verb)) {
        errors.not_supported(format!("{path}.verbs"), verbs, VERBS);
    }
}

/// The members of a list that are to be looked at one by one: none when it says all.
fn listed<'a>(
    rule: &'a Value,
    list: &str,
    missing: &str,
    others: &str,
    path: &str,
    errors: &mut FieldErrors,
) -> Vec<&'a str> {
    let values = items(rule, list);
    let path = format!("{path}.{list}");
    if values.is_empty() {
        errors.required_because(path, missing);
    } else if values.iter().any(|value| value == "*") {
        if values.len() > 1 {
            errors.invalid(path, values.to_vec(), format!("if '*' is present, must not specify other {others}"));
        }
        return Vec::new();
    }
    values.iter().filter_map(Value::as_str).collect()
}

/// A path from the root, with `*` only as a whole last step.
fn wrong_url(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn check_subject(subject: &Value, path: &str, errors: &mut FieldErrors) {
    let kind = str_at(subject, "kind");
    if !SUBJECTS.contains(&kind) {
        return errors.not_supported(format!("{path}.kind"), kind, SUBJECTS);
    }
    let mut members = [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
    // Its own first.
    members.sort_by_key(|(_, its)| *its != kind);
    for (member, its) in members {
        let there = at(subject, member).filter(|member| !member.is_null());
        match (its == kind, there) {
            (false, Some(_)) => {
                let why = format!("{member} is forbidden when subject kind is not '{its}'");
                errors.forbidden(format!("{path}.{member}"), why);
            }
            (false, None) => {}
            (true, None) => {
                let why = format!("{member} is required when subject kind is '{kind}'");
                errors.required_because(format!("{path}.{member}"), &why);
            }
            (true, Some(named)) => check_named(named, member, &format!("{path}.{member}"), errors),
        }
    }
}

fn check_named(named: &Value, member: &str, path: &str, errors: &mut FieldErrors) {
    let (name, namespace) = (str_at(named, "name"), str_at(named, "namespace"));
    if name.is_empty() {
        errors.required(format!("{path}.name"));
    }
    if member != "serviceAccount" {
        return;
    }
    if !name.is_empty()
        && name != "*"
        && let Err(why) = names::dns1123_subdomain(name)
    {
        errors.invalid(format!("{path}.name"), name, why);
    }
    if namespace.is_empty() {
        errors.required_because(format!("{path}.namespace"), "must specify namespace for service account");
    } else if let Err(why) = names::dns1123_label(namespace) {
        errors.invalid(format!("{path}.namespace"), namespace, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn schema(rule: Value) -> Value {
        let spec = json!({"priorityLevelConfiguration": {"name": "p"}, "rules": [rule]});
        defaulted(&FlowSchema, &json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    #[test]
    fn rules_name_somebody_and_something() {
        let check = |rule: Value, expect: &str| assert_eq!(errors(&FlowSchema, &schema(rule), None), expect);
        let subjects = json!([{"kind": "Group", "group": {"name": "g"}}]);
        let paths = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        check(json!({"subjects": subjects, "nonResourceRules": paths}), "[]");
        check(json!({"nonResourceRules": paths}), "spec.rules[0].subjects: Required value: subjects must contain at least one value");
        check(
            json!({"subjects": subjects}),
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        );
        check(
            json!({"subjects": subjects, "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
        );
        check(
            json!({"subjects": [{"kind": "User", "group": {"name": "g"}}], "nonResourceRules": paths}),
            "[spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User', spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group']",
        );
    }

    #[test]
    fn rules_say_what_can_match() {
        let subjects = json!([{"kind": "Group", "group": {"name": "g"}}]);
        let base = "spec.rules[0]";
        let check = |rule: Value, expect: &str| {
            let mut rule = rule;
            rule["subjects"] = subjects.clone();
            assert_eq!(errors(&FlowSchema, &schema(rule), None), expect);
        };
        let paths = |urls: Value| json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": urls}]});
        check(paths(json!(["/", "/a", "/a/*"])), "[]");
        let wrong = |url: &str, why: &str| {
            let expect = format!("{base}.nonResourceRules[0].nonResourceURLs[0]: Invalid value: {url:?}: {why}");
            check(paths(json!([url])), &expect);
        };
        wrong("", "must not be empty");
        wrong("a", "must start with slash");
        wrong("/a b", "must not contain white-space");
        wrong("/a//b", "must not contain double slash");
        wrong("/a*", "wildcard can only do suffix matching");
        wrong("/*/*", "wildcard can only do suffix matching");
        let resources = |verbs: Value, namespaces: Value| {
            let rule = json!({"verbs": verbs, "apiGroups": ["*"], "resources": ["pods"], "namespaces": namespaces});
            json!({"resourceRules": [rule]})
        };
        check(resources(json!(["get", "proxy"]), json!(["*"])), "[]");
        check(
            resources(json!(["*", "get"]), json!(["a"])),
            &format!("{base}.resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs"),
        );
        check(
            resources(json!(["get", "odd"]), json!(["a"])),
            &format!("{base}.resourceRules[0].verbs: Unsupported value: [\"get\",\"odd\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\""),
        );
        let text = errors(&FlowSchema, &schema(resources(json!(["get"]), json!(["A"]))), None);
        assert!(text.contains("each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label"), "{text}");
    }

    #[test]
    fn mandatory_schemas_stay_as_they_are() {
        let check = |object: Value, expect: bool| {
            let text = errors(&FlowSchema, &object, None);
            assert_eq!(text.contains("spec of 'exempt' must equal the fixed value"), expect, "{text}");
        };
        let spec = mandatory(&FLOW_SCHEMA, "exempt").unwrap();
        let mut object = json!({"metadata": {"name": "exempt"}, "spec": spec});
        check(object.clone(), false);
        object["spec"]["rules"] = json!([]);
        check(object.clone(), true);
        object["metadata"]["name"] = "other".into();
        check(object, false);
    }

    #[test]
    fn precedence_has_a_range() {
        let check = |precedence: i64, expect: &str| {
            let spec = json!({"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": precedence});
            assert_eq!(errors(&FlowSchema, &json!({"spec": spec}), None), expect);
        };
        check(2, "[]");
        let nameless = json!({"spec": {"priorityLevelConfiguration": {"name": "P"}, "matchingPrecedence": 5}});
        let text = errors(&FlowSchema, &nameless, None);
        assert!(text.starts_with("spec.priorityLevelConfiguration.name: Invalid value: \"P\""), "{text}");
        check(0, "spec.matchingPrecedence: Invalid value: 0: must be a positive value");
        check(10_001, "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000");
        check(1, "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1");
        let object = json!({"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5}});
        assert_eq!(row(&FlowSchema, &object), json!(["x", "p", 5, "<none>", "5s", "?"]));
    }
}
