//! `gantry diff`: what changed between two moments, from the store's history.

use crate::access::{Access, query};
use crate::compare::{compare, line};
use crate::get::explain;
use crate::resources::Resource;
use crate::{Misused, Scope};
use serde_json::Value;
use std::collections::BTreeMap;

/// Between which moments.
#[derive(Clone, Debug)]
pub struct Since {
    pub since: String,
    /// Empty: now.
    pub until: String,
}

/// Kinds that change all the time by themselves: only who asks for them is told.
const RESTLESS: &[&str] = &["events", "leases"];

/// What happened to one object.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Created,
    Deleted,
    /// Another object has the name.
    Replaced,
    Changed(Vec<String>),
}

/// The text to print, about one kind or, without one, about all that may be listed.
pub async fn diff(
    access: &Access,
    what: Option<&str>,
    names: &[String],
    scope: &Scope,
    since: &Since,
) -> anyhow::Result<String> {
    let resources = access.resources().await?;
    let namespace = access.namespace(scope);
    let kinds: Vec<&Resource> = match what {
        Some(what) => vec![resources.find(what)?],
        None => {
            let all = resources.listed(true).into_iter();
            all.filter(|kind| !RESTLESS.contains(&kind.plural.as_str())).collect()
        }
    };
    if what.is_some() && !kinds[0].can("list") {
        return Err(
            Misused(format!("{} cannot be listed, so nothing is known of its past", kinds[0].full_name())).into()
        );
    }
    let mut out = Vec::new();
    for kind in kinds {
        let before = state(access, kind, &namespace, scope, &since.since).await;
        let after = state(access, kind, &namespace, scope, &since.until).await;
        match (before, after) {
            (Ok(before), Ok(after)) => out.extend(report(kind, &before, &after, names)),
            (Err(error), _) | (_, Err(error)) if what.is_some() || error.is_gone() || error.is_bad() => {
                return Err(explain(error.0, &since.since));
            }
            // What may not be read is left out when everything is asked for.
            _ => {}
        }
    }
    Ok(if out.is_empty() { "Nothing changed.".into() } else { out.join("\n") })
}

struct Failed(gantry_client::ApiError);

impl Failed {
    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    /// A time that is none.
    fn is_bad(&self) -> bool {
        matches!(&self.0, gantry_client::ApiError::Other(status) if status.code == 400)
    }
}

type State = BTreeMap<String, Value>;

async fn state(access: &Access, kind: &Resource, namespace: &str, scope: &Scope, at: &str) -> Result<State, Failed> {
    let path = format!("{}{}", kind.path(namespace, ""), query(&[("labelSelector", &scope.labels), ("at", at)]));
    let mut list = access.get(&path).await.map_err(Failed)?;
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    Ok(items.into_iter().map(|item| (name_of(&item), item)).collect())
}

fn name_of(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

fn changes(before: &State, after: &State) -> BTreeMap<String, Change> {
    let mut out = BTreeMap::new();
    for (name, old) in before {
        match after.get(name) {
            None => drop(out.insert(name.clone(), Change::Deleted)),
            Some(new) if old["metadata"]["uid"] != new["metadata"]["uid"] => {
                out.insert(name.clone(), Change::Replaced);
            }
            Some(new) => {
                let lines: Vec<String> = compare(old, new).iter().map(line).collect();
                if !lines.is_empty() {
                    out.insert(name.clone(), Change::Changed(lines));
                }
            }
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        out.insert(name.clone(), Change::Created);
    }
    out
}

fn report(kind: &Resource, before: &State, after: &State, names: &[String]) -> Vec<String> {
    let wanted = |name: &String| {
        let own = name.rsplit('/').next().unwrap_or(name);
        names.is_empty() || names.iter().any(|known| known == own)
    };
    let mut out = Vec::new();
    for (name, change) in changes(before, after).into_iter().filter(|(name, _)| wanted(name)) {
        let title = format!("{}/{name}", kind.singular_name());
        match change {
            Change::Created => out.push(format!("+ {title} created")),
            Change::Deleted => out.push(format!("- {title} deleted")),
            Change::Replaced => out.push(format!("! {title} deleted and created anew")),
            Change::Changed(lines) => {
                out.push(format!("~ {title}{}", by(&after[&name])));
                out.extend(lines.into_iter().map(|line| format!("    {line}")));
            }
        }
    }
    out
}

/// Who wrote it last, and when.
fn by(object: &Value) -> String {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let last = entries.max_by_key(|entry| entry["time"].as_str().unwrap_or_default().to_owned());
    last.map_or_else(String::new, |entry| {
        let text = |key: &str| entry[key].as_str().unwrap_or("?");
        format!(" (last written by {} at {})", text("manager"), text("time"))
    })
}

impl Resource {
    /// `deployment.apps`, `pod`.
    pub fn singular_name(&self) -> String {
        let name = if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.clone() };
        if self.group.is_empty() { name } else { format!("{name}.{}", self.group) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, uid: &str, replicas: u32) -> (String, Value) {
        let managed = json!([{"manager": "old", "time": "2026-01-01T00:00:00Z"}, {"manager": "web-ci", "time": "2026-01-01T00:00:09Z"}]);
        let metadata = json!({"name": name, "namespace": "shop", "uid": uid, "managedFields": managed});
        let object = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        (name_of(&object), object)
    }

    #[test]
    fn objects_come_change_and_go() {
        let before = State::from([object("a", "1", 1), object("b", "2", 1), object("c", "3", 1), object("d", "4", 1)]);
        let after = State::from([object("a", "1", 1), object("b", "2", 5), object("c", "9", 1), object("e", "5", 1)]);
        let kind = Resource {
            group: "apps".into(),
            version: "v1".into(),
            plural: "deployments".into(),
            singular: "deployment".into(),
            kind: "Deployment".into(),
            short_names: Vec::new(),
            namespaced: true,
            verbs: Vec::new(),
        };
        let expect = [
            "~ deployment.apps/shop/b (last written by web-ci at 2026-01-01T00:00:09Z)",
            "    spec.replicas: 1 -> 5",
            "! deployment.apps/shop/c deleted and created anew",
            "- deployment.apps/shop/d deleted",
            "+ deployment.apps/shop/e created",
        ];
        assert_eq!(report(&kind, &before, &after, &[]), expect);
        assert_eq!(report(&kind, &before, &after, &["e".into()]), &expect[4..]);
        assert!(report(&kind, &before, &before, &[]).is_empty());
    }
}
