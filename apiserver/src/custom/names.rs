//! Which names a definition gets, and what its status says of it. Decides between definitions of one group that want the same name:
//! the one that has it keeps it. It writes nothing.

use super::definition::Definition;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

/// The status that a definition should have, given all others of its group.
pub fn status(object: &Value, others: &[&Value], now: Timestamp) -> Value {
    let definition = Definition::of(object);
    let mut status = object["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let wanted = &object["spec"]["names"];
    let mut accepted = if status["acceptedNames"].is_object() { status["acceptedNames"].clone() } else { json!({}) };
    let mut conflict = None;
    // Plural and kind may each be refused alone, as in Kubernetes; what is refused stays as it was accepted before.
    let mut take = |field: &str, taken: bool, what: String| {
        if taken {
            conflict.get_or_insert((field.to_owned(), what));
        } else if let Some(value) = wanted.get(field) {
            accepted[field] = value.clone();
        }
    };
    let resources: Vec<&str> = others.iter().flat_map(|other| resource_names(other)).collect();
    let kinds: Vec<&str> = others.iter().flat_map(|other| kind_names(other)).collect();
    let text = |field: &str| str_at(wanted, field);
    for field in ["plural", "singular"] {
        take(field, resources.contains(&text(field)), format!("{:?} is already in use", text(field)));
    }
    let short: Vec<&str> = items(wanted, "shortNames").iter().filter_map(Value::as_str).collect();
    let used: Vec<&&str> = short.iter().filter(|name| resources.contains(*name)).collect();
    take(
        "shortNames",
        !used.is_empty(),
        used.first().map(|name| format!("{name:?} is already in use")).unwrap_or_default(),
    );
    for field in ["kind", "listKind"] {
        take(field, kinds.contains(&text(field)), format!("{:?} is already in use", text(field)));
    }
    take("categories", false, String::new());
    for field in ["shortNames", "categories"] {
        if wanted.get(field).is_none() {
            accepted.as_object_mut().map(|names| names.remove(field));
        }
    }
    for field in ["plural", "kind"] {
        if accepted.get(field).is_none() {
            accepted[field] = "".into();
        }
    }
    status["acceptedNames"] = accepted;
    let mut conditions = items(&status, "conditions").to_vec();
    match conflict {
        None => set(&mut conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((field, why)) => {
            let mut reason = field.clone();
            reason[..1].make_ascii_uppercase();
            set(&mut conditions, "NamesAccepted", "False", &format!("{reason}Conflict"), &why, now);
            if !definition.has_condition("Established") {
                set(&mut conditions, "Established", "False", "NotAccepted", "not all names are accepted", now);
            }
        }
    }
    let accepted = conditions.iter().any(|c| str_at(c, "type") == "NamesAccepted" && str_at(c, "status") == "True");
    if accepted && !definition.has_condition("Established") {
        let text = "the initial names have been accepted";
        set(&mut conditions, "Established", "True", "InitialNamesAccepted", text, now);
    }
    status["conditions"] = conditions.into();
    status
}

/// Sets a condition; the time of its last change moves only when its status does.
pub fn set(conditions: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    let old = conditions.iter_mut().find(|condition| str_at(condition, "type") == kind);
    let time = match &old {
        Some(old) if str_at(old, "status") == status => old["lastTransitionTime"].clone(),
        _ => now.to_string().into(),
    };
    let new = json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message});
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn resource_names(other: &Value) -> Vec<&str> {
    let names = &other["status"]["acceptedNames"];
    let short = items(names, "shortNames").iter().filter_map(Value::as_str);
    ["plural", "singular"]
        .into_iter()
        .map(|field| str_at(names, field))
        .chain(short)
        .filter(|name| !name.is_empty())
        .collect()
}

fn kind_names(other: &Value) -> Vec<&str> {
    let names = &other["status"]["acceptedNames"];
    ["kind", "listKind"].into_iter().map(|field| str_at(names, field)).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str) -> Value {
        json!({"spec": {"group": "e.com", "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
            "listKind": format!("{kind}List")}}})
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> (&'a str, &'a str) {
        let found = items(status, "conditions").iter().find(|c| str_at(c, "type") == kind).unwrap();
        (str_at(found, "status"), str_at(found, "reason"))
    }

    #[test]
    fn free_names_are_accepted_and_taken_ones_are_not() {
        let now = Timestamp::from_secs(5);
        let mut first = definition("widgets", "Widget");
        first["status"] = status(&first, &[], now);
        assert_eq!(condition(&first["status"], "Established"), ("True", "InitialNamesAccepted"));
        assert_eq!(first["status"]["acceptedNames"]["plural"], "widgets");
        let settled = status(&first, &[], Timestamp::from_secs(99));
        assert_eq!(settled, first["status"], "nothing moves, its times neither");

        let second = definition("widgets", "Other");
        let refused = status(&second, &[&first], now);
        assert_eq!(condition(&refused, "NamesAccepted"), ("False", "PluralConflict"));
        assert_eq!(condition(&refused, "Established"), ("False", "NotAccepted"));
        let third = status(&definition("others", "Widget"), &[&first], now);
        assert_eq!(condition(&third, "NamesAccepted"), ("False", "SingularConflict"));
    }
}
