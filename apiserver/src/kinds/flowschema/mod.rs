//! What a FlowSchema means to the API: which requests it names, and that every rule names somebody and something. Which requests
//! match is decided by `fairness`.

use super::value::{at, bool_at, child, default, i64_at, items, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const DEFAULT_PRECEDENCE: i64 = 1_000;
const MAX_PRECEDENCE: i64 = 10_000;
const DISTINGUISHERS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];
/// Kubernetes' mandatory schema, alone in the first place.
const EXEMPT: &str = "exempt";

pub struct FlowSchema;

impl Strategy for FlowSchema {
    fn defaults(&self, object: &mut Value) {
        default(child(object, "spec"), "matchingPrecedence", DEFAULT_PRECEDENCE);
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return;
        }
        let precedence = i64_at(new, "spec.matchingPrecedence").unwrap_or(0);
        let path = "spec.matchingPrecedence";
        if precedence <= 0 {
            errors.invalid(path, precedence, "must be a positive value");
        } else if precedence > MAX_PRECEDENCE {
            errors.invalid(path, precedence, format!("must not be greater than {MAX_PRECEDENCE}"));
        } else if precedence == 1 && str_at(new, "metadata.name") != EXEMPT {
            errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        if let Some(method) = at(new, "spec.distinguisherMethod.type").and_then(Value::as_str)
            && !DISTINGUISHERS.contains(&method)
        {
            errors.not_supported("spec.distinguisherMethod.type", method, DISTINGUISHERS);
        }
        if str_at(new, "spec.priorityLevelConfiguration.name").is_empty() {
            errors.required_because("spec.priorityLevelConfiguration.name", "must reference a priority level");
        }
        for (i, rule) in items(new, "spec.rules").iter().enumerate() {
            check_rule(rule, &format!("spec.rules[{i}]"), errors);
        }
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
        let path = format!("{path}.resourceRules[{i}]");
        need_some(rule, &["verbs", "apiGroups", "resources"], &path, errors);
        if items(rule, "namespaces").is_empty() && !bool_at(rule, "clusterScope") {
            let why = "resource rules that are not cluster scoped must supply at least one namespace";
            errors.required_because(format!("{path}.namespaces"), why);
        }
    }
    for (i, rule) in paths.iter().enumerate() {
        need_some(rule, &["verbs", "nonResourceURLs"], &format!("{path}.nonResourceRules[{i}]"), errors);
    }
}

fn need_some(rule: &Value, lists: &[&str], path: &str, errors: &mut FieldErrors) {
    for list in lists {
        let values = items(rule, list);
        if values.is_empty() {
            errors.required_because(format!("{path}.{list}"), &format!("{list} must contain at least one value"));
        } else if values.len() > 1 && values.iter().any(|v| v == "*") {
            errors.invalid(format!("{path}.{list}"), values.to_vec(), "if '*' is present, must not specify other values");
        }
    }
}

fn check_subject(subject: &Value, path: &str, errors: &mut FieldErrors) {
    let kind = str_at(subject, "kind");
    let member = match kind {
        "User" => "user",
        "Group" => "group",
        "ServiceAccount" => "serviceAccount",
        other => return errors.not_supported(format!("{path}.kind"), other, SUBJECTS),
    };
    for other in ["user", "group", "serviceAccount"] {
        if other != member && at(subject, other).is_some() {
            errors.forbidden(format!("{path}.{other}"), format!("{other} is forbidden when subject kind is not '{other}'"));
        }
    }
    let Some(inner) = at(subject, member) else {
        return errors.required_because(format!("{path}.{member}"), &format!("{member} is required when subject kind is '{kind}'"));
    };
    if str_at(inner, "name").is_empty() {
        errors.required(format!("{path}.{member}.name"));
    }
    if member == "serviceAccount" && str_at(inner, "namespace").is_empty() {
        errors.required_because(format!("{path}.{member}.namespace"), "must specify namespace for service account");
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
            "[spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'group', spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User']",
        );
    }

    #[test]
    fn precedence_has_a_range() {
        let check = |precedence: i64, expect: &str| {
            let spec = json!({"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": precedence});
            assert_eq!(errors(&FlowSchema, &json!({"spec": spec}), None), expect);
        };
        check(2, "[]");
        check(0, "spec.matchingPrecedence: Invalid value: 0: must be a positive value");
        check(10_001, "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000");
        check(1, "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1");
        let object = json!({"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5}});
        assert_eq!(row(&FlowSchema, &object), json!(["x", "p", 5, "<none>", "5s", "?"]));
    }
}
