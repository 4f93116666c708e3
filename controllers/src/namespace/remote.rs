//! Kinds that other servers serve beside this one, as far as a namespace's end is about them: what has a namespace, and can be listed
//! and deleted. Decides which of several versions of a kind is asked.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::names;
use serde::Deserialize;

use crate::edge::Env;
use crate::objects::ApiService;

/// Resources that one group version may name; more are nobody's.
const MOST: usize = 500;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    name: String,
    singular_name: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<String>,
}

/// The kinds of all groups of other servers, and for each group version that does not answer, why.
pub async fn kinds(env: &Env) -> (Vec<&'static Kind>, Vec<String>) {
    let (mut all, mut failures, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (group, version) in versions(env.informers.api_services.list().iter().map(|service| &**service)) {
        match env.client.get_path::<ResourceList>(&format!("/apis/{group}/{version}")).await {
            Ok(list) => all.extend(named(&group, &version, &list, &mut seen)),
            Err(error) => failures.push(format!("{group}/{version}: {}", error.chain())),
        }
    }
    (all, failures)
}

/// The group versions of other servers, the preferred one of each group first.
fn versions<'a>(services: impl Iterator<Item = &'a ApiService>) -> Vec<(String, String)> {
    let mut remote: Vec<_> = services.map(|service| &service.spec).filter(|spec| spec.service.is_some()).collect();
    remote.sort_by_key(|spec| (spec.group.clone(), Reverse(spec.version_priority), spec.version.clone()));
    remote.into_iter().map(|spec| (spec.group.clone(), spec.version.clone())).collect()
}

/// What a group version has and no version before it had.
fn named(group: &str, version: &str, list: &ResourceList, seen: &mut BTreeSet<(String, String)>) -> Vec<&'static Kind> {
    let can = |resource: &Resource, verb: &str| resource.verbs.iter().any(|one| one == verb);
    let ends = |resource: &&Resource| {
        resource.namespaced
            && can(resource, "list")
            && can(resource, "delete")
            && names::dns1123_subdomain(&resource.name).is_ok()
    };
    let mut all = Vec::new();
    for resource in list.resources.iter().filter(ends).take(MOST) {
        if seen.insert((group.to_owned(), resource.name.clone())) {
            all.push(kinds::intern(&kinds::Definition {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: resource.kind.clone(),
                plural: resource.name.clone(),
                singular: resource.singular_name.clone(),
                namespaced: true,
                ..kinds::Definition::default()
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_can_be_listed_and_deleted_is_looked_into_once() {
        let list = |verbs: &[&str]| -> ResourceList {
            serde_json::from_value(json!({"resources": [
                {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": verbs},
                {"name": "flunders/status", "namespaced": true, "kind": "Flunder", "verbs": verbs},
                {"name": "fischers", "namespaced": false, "kind": "Fischer", "verbs": verbs},
            ]}))
            .unwrap()
        };
        let mut seen = BTreeSet::new();
        assert!(named("e.com", "v1", &list(&["get", "list"]), &mut seen).is_empty());
        let found = named("e.com", "v1", &list(&["get", "list", "delete"]), &mut seen);
        let paths: Vec<String> = found.iter().map(|kind| kind.path("n", "")).collect();
        assert_eq!(paths, ["/apis/e.com/v1/namespaces/n/flunders"]);
        assert!(named("e.com", "v1beta1", &list(&["list", "delete"]), &mut seen).is_empty(), "the same objects");
    }

    #[test]
    fn only_groups_of_others_are_asked_the_preferred_version_first() {
        let service = |group: &str, version: &str, priority: i64, remote: bool| -> ApiService {
            let service = if remote { json!({"name": "s"}) } else { json!(null) };
            let spec = json!({"group": group, "version": version, "versionPriority": priority, "service": service});
            serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap()
        };
        let all = [
            service("b", "v1", 10, true),
            service("b", "v2", 20, true),
            service("a", "v1", 1, true),
            service("c", "v1", 1, false),
        ];
        let found = versions(all.iter());
        let text: Vec<String> = found.iter().map(|(group, version)| format!("{group}/{version}")).collect();
        assert_eq!(text, ["a/v1", "b/v2", "b/v1"]);
    }
}
