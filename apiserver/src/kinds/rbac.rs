//! What the four kinds of RBAC share: how rules, references and subjects are checked and printed. Decides their form; what they
//! allow is `auth::rbac`'s.

use super::value::{at, child, items, items_mut, str_at};
use super::{Column, columns};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECTS: &[&str] = &["ServiceAccount", "User", "Group"];

/// Every rule allows something, and a namespace's rules only what is in a namespace.
pub fn check_rules(role: &Value, namespaced: bool, errors: &mut FieldErrors) {
    for (i, rule) in items(role, "rules").iter().enumerate() {
        check_rule(rule, namespaced, &format!("rules[{i}]"), errors);
    }
}

fn check_rule(rule: &Value, namespaced: bool, path: &str, errors: &mut FieldErrors) {
    let empty = |list: &str| items(rule, list).is_empty();
    if empty("verbs") {
        errors.required_because(format!("{path}.verbs"), "verbs must contain at least one value");
    }
    if !empty("nonResourceURLs") {
        let (path, urls) = (format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"]);
        if namespaced {
            errors.invalid(path.as_str(), urls.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(path, urls.clone(), why);
        }
        return;
    }
    if empty("apiGroups") {
        errors.required_because(format!("{path}.apiGroups"), "resource rules must supply at least one api group");
    }
    if empty("resources") {
        errors.required_because(format!("{path}.resources"), "resource rules must supply at least one resource");
    }
}

/// The groups that a binding may leave out.
pub fn default_binding(binding: &mut Value) {
    let reference = child(binding, "roleRef");
    if str_at(reference, "apiGroup").is_empty() {
        reference["apiGroup"] = GROUP.into();
    }
    for subject in items_mut(binding, "subjects") {
        match str_at(subject, "kind") {
            "User" | "Group" if str_at(subject, "apiGroup").is_empty() => subject["apiGroup"] = GROUP.into(),
            _ => {}
        }
    }
}

/// `kinds`: the kinds of role that the binding may refer to.
pub fn check_binding(new: &Value, old: Option<&Value>, kinds: &[&str], namespaced: bool, errors: &mut FieldErrors) {
    let reference = &new["roleRef"];
    if str_at(reference, "apiGroup") != GROUP {
        errors.not_supported("roleRef.apiGroup", str_at(reference, "apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&str_at(reference, "kind")) {
        errors.not_supported("roleRef.kind", str_at(reference, "kind"), kinds);
    }
    match str_at(reference, "name") {
        "" => errors.required("roleRef.name"),
        name => {
            if let Err(why) = names::path_segment(name) {
                errors.invalid("roleRef.name", name, why);
            }
        }
    }
    for (i, subject) in items(new, "subjects").iter().enumerate() {
        check_subject(subject, namespaced, &format!("subjects[{i}]"), errors);
    }
    if let Some(old) = old
        && old["roleRef"] != *reference
    {
        errors.invalid("roleRef", reference.clone(), "cannot change roleRef");
    }
}

fn check_subject(subject: &Value, namespaced: bool, path: &str, errors: &mut FieldErrors) {
    let (kind, name, group) = (str_at(subject, "kind"), str_at(subject, "name"), str_at(subject, "apiGroup"));
    if name.is_empty() {
        errors.required(format!("{path}.name"));
    }
    match kind {
        "ServiceAccount" => {
            if let Some(Err(why)) = (!name.is_empty()).then(|| names::dns1123_subdomain(name)) {
                errors.invalid(format!("{path}.name"), name, why);
            }
            if !group.is_empty() {
                errors.not_supported(format!("{path}.apiGroup"), group, &[""]);
            }
            if !namespaced && str_at(subject, "namespace").is_empty() {
                errors.required(format!("{path}.namespace"));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(format!("{path}.apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(format!("{path}.kind"), other, SUBJECTS),
    }
}

pub const ROLE_COLUMNS: &[Column] = &[
    Column::NAME,
    Column { name: "Created At", kind: "date", format: "", description: "When the role was created.", priority: 0 },
];

pub fn role_row(role: &Value) -> Vec<Value> {
    vec![columns::name(role), role["metadata"]["creationTimestamp"].clone()]
}

pub const BINDING_COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", "What is granted."),
    Column::AGE,
    Column::text("Users", "The users that it is granted to.").wide(),
    Column::text("Groups", "The groups that it is granted to.").wide(),
    Column::text("ServiceAccounts", "The service accounts that it is granted to.").wide(),
];

pub fn binding_row(binding: &Value, now: Timestamp) -> Vec<Value> {
    let reference = &binding["roleRef"];
    let named = |kind: &str, show: &dyn Fn(&Value) -> String| -> Value {
        let subjects = items(binding, "subjects").iter().filter(|subject| subject["kind"] == kind);
        subjects.map(show).collect::<Vec<_>>().join(", ").into()
    };
    let name = |subject: &Value| str_at(subject, "name").to_owned();
    let account = |subject: &Value| format!("{}/{}", str_at(subject, "namespace"), str_at(subject, "name"));
    vec![
        columns::name(binding),
        format!("{}/{}", str_at(reference, "kind"), str_at(reference, "name")).into(),
        columns::age(binding, now),
        named("User", &name),
        named("Group", &name),
        named("ServiceAccount", &account),
    ]
}

/// Whether an object has the field and says something in it.
pub fn has(object: &Value, path: &str) -> bool {
    at(object, path).is_some()
}
