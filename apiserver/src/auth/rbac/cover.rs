//! Whether the rules that somebody holds cover the rules that are to be granted. Decides what is missing and how that reads, in
//! Kubernetes' words; never who asks.

use super::rule::{Rule, has, has_or_star, url_covers};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A rule is taken apart into single permissions, unless it has more than this many: then one held rule must cover all of it.
const MAX_PARTS: usize = 10_000;

/// What of `wanted` no rule of `held` covers, in single permissions.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let missing = |rule: &Rule| !held.iter().any(|have| covers(have, rule));
    wanted.iter().filter(|rule| missing(rule)).flat_map(parts).filter(missing).collect()
}

fn parts(rule: &Rule) -> Vec<Rule> {
    let size = |list: &Vec<String>| list.len().max(1);
    let of_resources = [&rule.groups, &rule.resources, &rule.verbs, &rule.names];
    let count = of_resources.into_iter().fold(1_usize, |all, list| all.saturating_mul(size(list)));
    if count.saturating_add(rule.urls.len().saturating_mul(size(&rule.verbs))) > MAX_PARTS {
        return vec![rule.clone()];
    }
    let one = |text: &String| vec![text.clone()];
    let mut parts = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = Rule { verbs: one(verb), groups: one(group), resources: one(resource), ..Rule::default() };
                if rule.names.is_empty() {
                    parts.push(part.clone());
                }
                parts.extend(rule.names.iter().map(|name| Rule { names: one(name), ..part.clone() }));
            }
        }
    }
    for url in &rule.urls {
        parts.extend(rule.verbs.iter().map(|verb| Rule { verbs: one(verb), urls: one(url), ..Rule::default() }));
    }
    parts
}

/// Whether one rule allows all that another does.
fn covers(have: &Rule, want: &Rule) -> bool {
    let all = |list: &[String], wanted: &[String]| wanted.iter().all(|item| has_or_star(list, item));
    let resource = |wanted: &String| {
        let any = wanted.split_once('/').is_some_and(|(_, sub)| has(&have.resources, &format!("*/{sub}")));
        any || has_or_star(&have.resources, wanted)
    };
    let url = |wanted: &String| have.urls.iter().any(|url| url_covers(url, wanted));
    let named =
        have.names.is_empty() || (!want.names.is_empty() && want.names.iter().all(|name| has(&have.names, name)));
    all(&have.verbs, &want.verbs)
        && all(&have.groups, &want.groups)
        && want.resources.iter().all(resource)
        && want.urls.iter().all(url)
        && named
}

/// Joins the verbs of rules that say the same of one resource.
pub fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    let mut places: BTreeMap<Rule, usize> = BTreeMap::new();
    for rule in rules {
        let simple =
            rule.groups.len() == 1 && rule.resources.len() == 1 && rule.names.len() <= 1 && rule.urls.is_empty();
        if !simple {
            joined.push(rule);
            continue;
        }
        match places.entry(Rule { verbs: Vec::new(), ..rule.clone() }) {
            Entry::Occupied(at) => joined[*at.get()].verbs.extend(rule.verbs),
            Entry::Vacant(at) => {
                at.insert(joined.len());
                joined.push(rule);
            }
        }
    }
    joined
}

/// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`
pub fn describe(rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.urls),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let said = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let parts: Vec<String> = said.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// `["a" "b"]`
pub fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Why permissions that are not held may not be granted; `None` when all are held.
pub fn escalation(user: &crate::auth::UserInfo, held: &[Rule], unknown: &[String], wanted: &[Rule]) -> Option<String> {
    let missing = compact(uncovered(held, wanted));
    if missing.is_empty() {
        return None;
    }
    let mut texts: Vec<String> = missing.iter().map(describe).collect();
    texts.sort();
    texts.dedup();
    let (name, groups) = (&user.username, quoted(&user.groups));
    let mut text = format!(
        "user {name:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
        texts.join("\n")
    );
    if !unknown.is_empty() {
        text.push_str(&format!("; resolution errors: [{}]", unknown.join(", ")));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::UserInfo;
    use serde_json::{Value, json};

    fn rules(list: Value) -> Vec<Rule> {
        list.as_array().unwrap().iter().map(Rule::read).collect()
    }

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Value {
        let list = |text: &str| text.split_whitespace().map(|t| t.trim_matches('\'').to_owned()).collect::<Vec<_>>();
        json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), "resourceNames": list(names)})
    }

    #[test]
    fn what_is_not_held_is_missing() {
        let check = |held: Value, wanted: Value, expect: &str| {
            let missing = compact(uncovered(&rules(held.clone()), &rules(wanted.clone())));
            let text: Vec<String> = missing.iter().map(describe).collect();
            assert_eq!(text.join(" "), expect, "{held} {wanted}");
        };
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        check(
            all.clone(),
            json!([rule("get *", "''", "pods pods/log", "a"), {"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
            "",
        );
        check(json!([]), json!([]), "");
        check(
            json!([rule("get", "''", "pods", "")]),
            json!([rule("get list watch", "''", "pods", "")]),
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}",
        );
        // Two held rules together.
        check(
            json!([rule("get", "''", "pods", ""), rule("list", "''", "pods", "")]),
            json!([rule("get list", "''", "pods", "")]),
            "",
        );
        // Names: some of a kind are not all of it.
        check(json!([rule("get", "''", "pods", "a b")]), json!([rule("get", "''", "pods", "a")]), "");
        check(
            json!([rule("get", "''", "pods", "a")]),
            json!([rule("get", "''", "pods", "")]),
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}",
        );
        check(json!([rule("get", "''", "pods", "")]), json!([rule("get", "''", "pods", "a")]), "");
        // A star is more than everything that is known today.
        check(
            json!([rule("get list", "''", "pods", "")]),
            json!([rule("*", "''", "pods", "")]),
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}",
        );
        check(json!([rule("get", "*", "*/scale", "")]), json!([rule("get", "apps", "deployments/scale", "")]), "");
        check(
            json!([rule("get", "*", "*/scale", "")]),
            json!([rule("get", "apps", "deployments", "")]),
            "{APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\"]}",
        );
        check(
            json!([{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]),
            json!([{"verbs": ["get"], "nonResourceURLs": ["/a/b", "/b", "/*"]}]),
            "{NonResourceURLs:[\"/b\"], Verbs:[\"get\"]} {NonResourceURLs:[\"/*\"], Verbs:[\"get\"]}",
        );
    }

    #[test]
    fn a_huge_rule_is_not_taken_apart() {
        let many = |prefix: &str| (0..1_000).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
        let huge = json!([{"verbs": many("v"), "apiGroups": many("g"), "resources": many("r")}]);
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        assert_eq!(uncovered(&rules(json!([rule("v0", "*", "*", "")])), &rules(huge.clone())), rules(huge.clone()));
        assert_eq!(uncovered(&rules(all), &rules(huge)), []);
    }

    #[test]
    fn the_refusal_names_who_and_what() {
        let user = UserInfo::new("jane", &["dev"]);
        let wanted = rules(json!([rule("get list", "''", "secrets pods", "")]));
        assert_eq!(
            escalation(&user, &[], &["x".to_owned()], &wanted).unwrap(),
            "user \"jane\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}; resolution errors: [x]"
        );
        assert_eq!(escalation(&user, &wanted, &[], &wanted), None);
    }
}
