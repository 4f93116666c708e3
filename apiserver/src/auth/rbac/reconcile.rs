//! What a default role or binding that is there already becomes at start. Decides, as Kubernetes does, that what is missing is added
//! and what somebody added stays; whoever set `autoupdate` to `false` keeps the object as it is.

use super::cover::uncovered;
use super::defaults::AUTOUPDATE;
use super::rule::rules_of;
use crate::kinds::value::{child, items, str_at};
use serde_json::Value;

/// What to do with an object that is there.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Nothing,
    Update(Value),
    /// A binding to another role: that cannot be changed.
    Replace,
}

/// `existing` as it is, `wanted` as a new cluster gets it.
pub fn reconciled(existing: &Value, wanted: &Value) -> Step {
    if existing["metadata"]["annotations"].get(AUTOUPDATE).is_some_and(|auto| auto == "false") {
        return Step::Nothing;
    }
    if existing["roleRef"] != wanted["roleRef"] {
        return Step::Replace;
    }
    let mut new = existing.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            let have = child(child(&mut new, "metadata"), field);
            if have.get(key).is_none() {
                have[key.as_str()] = value.clone();
            }
        }
    }
    aggregation(&mut new, wanted);
    // The rules of a role that gathers are what it gathers.
    if items(&new, "aggregationRule.clusterRoleSelectors").is_empty() {
        let missing = uncovered(&rules_of(existing), &rules_of(wanted));
        append(&mut new, "rules", missing.iter().map(super::rule::Rule::json));
    }
    let have = items(existing, "subjects");
    let missing = items(wanted, "subjects").iter().filter(|subject| !have.iter().any(|one| same(one, subject)));
    append(&mut new, "subjects", missing.cloned());
    if new == *existing { Step::Nothing } else { Step::Update(new) }
}

fn aggregation(new: &mut Value, wanted: &Value) {
    const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = items(wanted, SELECTORS);
    if selectors.is_empty() {
        if let Some(role) = new.as_object_mut() {
            role.remove("aggregationRule");
        }
        return;
    }
    let have = items(new, SELECTORS).to_vec();
    let missing = selectors.iter().filter(|selector| !have.contains(selector)).cloned();
    append(child(new, "aggregationRule"), "clusterRoleSelectors", missing);
}

fn append(object: &mut Value, field: &str, more: impl Iterator<Item = Value>) {
    let more: Vec<Value> = more.collect();
    if more.is_empty() {
        return;
    }
    match object.get_mut(field).and_then(Value::as_array_mut) {
        Some(list) => list.extend(more),
        None => object[field] = more.into(),
    }
}

fn same(one: &Value, other: &Value) -> bool {
    ["kind", "name", "namespace"].iter().all(|field| str_at(one, field) == str_at(other, field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(existing: Value, wanted: Value, expect: Step) {
        assert_eq!(reconciled(&existing, &wanted), expect, "{existing}");
        if let Step::Update(new) = expect {
            assert_eq!(reconciled(&new, &wanted), Step::Nothing, "once is enough");
        }
    }

    fn role(verbs: &[&str]) -> Value {
        json!({"metadata": {"annotations": {AUTOUPDATE: "true"}}, "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["a"]}]})
    }

    #[test]
    fn rules_are_added_and_never_taken() {
        check(role(&["get", "list"]), role(&["get"]), Step::Nothing);
        check(role(&["*"]), role(&["get"]), Step::Nothing);
        let mut more = role(&["get"]);
        more["rules"].as_array_mut().unwrap().push(role(&["list"])["rules"][0].clone());
        check(role(&["get"]), role(&["get", "list"]), Step::Update(more));
        let mut kept = role(&[]);
        kept["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        check(kept, role(&["get"]), Step::Nothing);
    }

    #[test]
    fn labels_and_annotations_are_added_and_keep_their_values() {
        let meta = |labels: Value| json!({"metadata": {"labels": labels, "annotations": {AUTOUPDATE: "true"}}});
        check(meta(json!({"a": "mine"})), meta(json!({"a": "1"})), Step::Nothing);
        check(meta(json!({"a": "mine"})), meta(json!({"b": "1"})), Step::Update(meta(json!({"a": "mine", "b": "1"}))));
    }

    #[test]
    fn subjects_are_added_and_another_role_needs_another_binding() {
        let binding = |role: &str, names: &[&str]| {
            let subjects: Vec<Value> = names.iter().map(|name| json!({"kind": "User", "name": name})).collect();
            json!({"roleRef": {"name": role}, "subjects": subjects})
        };
        check(binding("r", &["a", "b"]), binding("r", &["a"]), Step::Nothing);
        check(binding("r", &["b"]), binding("r", &["a"]), Step::Update(binding("r", &["b", "a"])));
        check(binding("s", &["a"]), binding("r", &["a"]), Step::Replace);
        check(json!({"roleRef": {"name": "r"}}), binding("r", &["a"]), Step::Update(binding("r", &["a"])));
    }

    #[test]
    fn what_is_gathered_is_left_to_the_gathering() {
        let gathers = |selectors: Value| json!({"aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []});
        let mut wanted = gathers(json!([1]));
        wanted["rules"] = role(&["get"])["rules"].clone();
        check(gathers(json!([1])), wanted.clone(), Step::Nothing);
        check(gathers(json!([2])), wanted, Step::Update(gathers(json!([2, 1]))));
        // A role that gathers no more.
        let (mut old, plain) = (role(&["get"]), role(&["get"]));
        old["aggregationRule"] = json!({"clusterRoleSelectors": [1]});
        check(old, plain.clone(), Step::Update(plain));
    }
}
