//! Behaviours of discovery and OpenAPI that go through everything a server names.

use super::broken;
use crate::exchange::Failure;
use crate::run::Session;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The kinds that Kubernetes 1.35 serves by default: `GROUP/VERSION resource Kind scope shortnames`.
const KINDS: &str = include_str!("kinds-1.35.txt");

async fn get(session: &Session<'_>, path: &str) -> Result<Value, Failure> {
    Ok(session.say(json!({"do": format!("GET {path}"), "expect": 200})).await?.value)
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().into_iter().flatten()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Every version that plain discovery names: `v1`, `apps/v1`, …, with its resources.
async fn plain(session: &Session<'_>) -> Result<BTreeMap<String, Value>, Failure> {
    let mut versions = BTreeMap::from([("v1".to_owned(), get(session, "/api/v1").await?)]);
    let groups = get(session, "/apis").await?;
    for version in list(&groups, "groups").flat_map(|group| list(group, "versions")) {
        let version = text(version, "groupVersion").to_owned();
        let resources = get(session, &format!("/apis/{version}")).await?;
        versions.insert(version, resources);
    }
    Ok(versions)
}

fn root(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}

/// Until it holds: what other behaviours make and end meanwhile is in one document and not in the next.
async fn undisturbed<F: Future<Output = Result<(), Failure>>>(check: impl Fn() -> F) -> Result<(), Failure> {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        if check().await.is_ok() {
            return Ok(());
        }
    }
    check().await
}

pub fn everything_answers<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    undisturbed(move || async move {
        for (version, resources) in plain(session).await? {
            for resource in list(&resources, "resources") {
                if list(resource, "verbs").any(|verb| verb == "list") {
                    let path = format!("{}/{}?limit=1", root(&version), text(resource, "name"));
                    let reply = get(session, &path).await?;
                    let kind = format!("{}List", text(resource, "kind"));
                    if reply["kind"] != kind.as_str() {
                        return Err(broken(path, format!("its kind is not {kind}: {}", reply["kind"])));
                    }
                }
            }
        }
        Ok(())
    })
    .boxed()
}

/// `GROUP/VERSION resource[/subresource] verbs`, one for each.
fn flattened(groups: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for group in list(groups, "items") {
        let name = text(&group["metadata"], "name");
        for version in list(group, "versions") {
            let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
            let prefix = format!("{prefix}{}", text(version, "version"));
            for resource in list(version, "resources") {
                let resource_name = text(resource, "resource");
                if !resource["verbs"].is_null() {
                    all.push(line(&prefix, resource_name, resource));
                }
                for sub in list(resource, "subresources") {
                    all.push(line(&prefix, &format!("{resource_name}/{}", text(sub, "subresource")), sub));
                }
            }
        }
    }
    all.sort();
    all
}

fn line(version: &str, resource: &str, value: &Value) -> String {
    let mut verbs: Vec<&str> = list(value, "verbs").filter_map(Value::as_str).collect();
    verbs.sort_unstable();
    format!("{version} {resource} {}", verbs.join(","))
}

pub fn plain_is_aggregated<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    undisturbed(move || async move {
        let mut plainly = Vec::new();
        for (version, resources) in plain(session).await? {
            plainly
                .extend(list(&resources, "resources").map(|resource| line(&version, text(resource, "name"), resource)));
        }
        plainly.sort();
        let mut together = Vec::new();
        for path in ["/api", "/apis"] {
            let ask = json!({"do": format!("GET {path}"), "accept": AGGREGATED, "expect": 200});
            together.extend(flattened(&session.say(ask).await?.value));
        }
        together.sort();
        let missing: Vec<&String> = plainly.iter().filter(|line| !together.contains(line)).collect();
        let more: Vec<&String> = together.iter().filter(|line| !plainly.contains(line)).collect();
        if missing.is_empty() && more.is_empty() {
            return Ok(());
        }
        Err(broken(
            "GET /api and /apis, plain and aggregated",
            format!("only plain: {missing:?}; only aggregated: {more:?}"),
        ))
    })
    .boxed()
}

pub fn kinds_of_1_35<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let versions = plain(session).await?;
        let mut missing = Vec::new();
        for expected in KINDS.lines() {
            let words: Vec<&str> = expected.split(' ').collect();
            let [version, resource, kind, scope, short_names] = words[..] else { continue };
            let found =
                versions.get(version).and_then(|all| list(all, "resources").find(|r| text(r, "name") == resource));
            let fits = found.is_some_and(|found| {
                let short: Vec<&str> = list(found, "shortNames").filter_map(Value::as_str).collect();
                let same_names = short.join(",") == short_names.trim_matches('-');
                text(found, "kind") == kind && found["namespaced"] == (scope == "Namespaced") && same_names
            });
            if !fits {
                missing.push(expected);
            }
        }
        if missing.is_empty() {
            Ok(())
        } else {
            Err(broken("discovery", format!("not there, or otherwise: {missing:?}")))
        }
    }
    .boxed()
}

pub fn references_lead_somewhere<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let index = get(session, "/openapi/v3").await?;
        let urls = index["paths"].as_object().into_iter().flatten();
        for url in urls.map(|(_, entry)| text(entry, "serverRelativeURL")) {
            let document = get(session, url).await?;
            let mut references = Vec::new();
            collect(&document, &mut references);
            for reference in references {
                let pointer = reference.trim_start_matches('#');
                if document.pointer(pointer).is_none() {
                    return Err(broken(format!("GET {url}"), format!("{reference} leads nowhere")));
                }
            }
        }
        Ok(())
    }
    .boxed()
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            references.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, references));
        }
        Value::Array(all) => all.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{KINDS, collect, flattened};
    use serde_json::json;

    #[test]
    fn aggregated_discovery_is_flattened_to_lines() {
        let resource = json!({"resource": "pods", "verbs": ["list", "get"], "subresources": [{"subresource": "log", "verbs": ["get"]}]});
        let hidden = json!({"resource": "bindings", "subresources": []});
        let groups = json!({"items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [resource, hidden]}]},
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [{"resource": "x", "verbs": []}]}]},
        ]});
        assert_eq!(flattened(&groups), ["apps/v1 x ", "v1 pods get,list", "v1 pods/log get"]);
    }

    #[test]
    fn references_are_found_wherever_they_are() {
        let mut found = Vec::new();
        collect(&json!({"a": [{"$ref": "#/x"}], "$ref": "#/y"}), &mut found);
        assert_eq!(found, ["#/y", "#/x"]);
    }

    #[test]
    fn the_table_of_kinds_can_be_read() {
        assert!(KINDS.lines().count() > 55);
        KINDS.lines().for_each(|line| assert_eq!(line.split(' ').count(), 5, "{line}"));
    }
}
