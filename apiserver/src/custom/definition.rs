//! A `CustomResourceDefinition` as the server reads it. Decides which of its versions are served and under which names; its
//! validity was decided when it was written.

use super::version::Version;
use crate::cache::Group;
use crate::kinds::Selectable;
use crate::kinds::value::{bool_at, items, str_at};
use gantry_apimachinery::kinds::{self, Kind};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

pub struct Definition<'a> {
    pub object: &'a Value,
}

impl<'a> Definition<'a> {
    pub fn of(object: &'a Value) -> Self {
        Self { object }
    }

    pub fn name(&self) -> &'a str {
        str_at(self.object, "metadata.name")
    }

    pub fn group(&self) -> &'a str {
        str_at(self.object, "spec.group")
    }

    pub fn is_namespaced(&self) -> bool {
        str_at(self.object, "spec.scope") == "Namespaced"
    }

    pub fn has_condition(&self, wanted: &str) -> bool {
        let mut conditions = items(self.object, "status.conditions").iter();
        conditions.any(|condition| str_at(condition, "type") == wanted && str_at(condition, "status") == "True")
    }

    pub fn is_terminating(&self) -> bool {
        !str_at(self.object, "metadata.deletionTimestamp").is_empty()
    }

    /// The version that objects are stored in.
    pub fn storage_version(&self) -> Option<&'a Value> {
        items(self.object, "spec.versions").iter().find(|version| bool_at(version, "storage"))
    }

    fn texts(&self, path: &str) -> Vec<String> {
        items(self.object, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The kind of one version, by the names that were accepted.
    pub fn kind(&self, version: &Value) -> &'static Kind {
        let names = |field: &str| str_at(self.object, &format!("status.acceptedNames.{field}")).to_owned();
        kinds::intern(&kinds::Definition {
            group: self.group().to_owned(),
            version: str_at(version, "name").to_owned(),
            kind: names("kind"),
            plural: names("plural"),
            singular: names("singular"),
            short_names: self.texts("status.acceptedNames.shortNames"),
            categories: self.texts("status.acceptedNames.categories"),
            namespaced: self.is_namespaced(),
            status: version["subresources"]["status"].is_object(),
            scale: version["subresources"]["scale"].is_object(),
        })
    }

    /// Fields that select objects, of the stored version.
    pub fn selectable(&self) -> Vec<Selectable> {
        let fields = self.storage_version().map(|version| items(version, "selectableFields")).unwrap_or_default();
        let path = |field: &Value| str_at(field, "jsonPath").trim_start_matches('.').to_owned();
        fields
            .iter()
            .map(path)
            .map(|path| Selectable { label: Cow::Owned(path.clone()), path: Cow::Owned(path), default: "" })
            .collect()
    }

    /// Everything but the status and the bookkeeping: what the served versions are made from.
    pub fn same_rules(&self, other: &Value) -> bool {
        self.object["spec"] == other["spec"]
            && self.object["status"]["acceptedNames"] == other["status"]["acceptedNames"]
            && self.object["status"]["storedVersions"] == other["status"]["storedVersions"]
            && self.is_terminating() == Definition::of(other).is_terminating()
            && self.object["metadata"]["uid"] == other["metadata"]["uid"]
    }

    /// The served versions, in the order in which discovery lists them, the preferred one first.
    pub fn versions(&self, group: &Arc<Group>) -> Vec<Arc<Version>> {
        let Some(storage) = self.storage_version() else { return Vec::new() };
        let mut served: Vec<&Value> =
            items(self.object, "spec.versions").iter().filter(|version| bool_at(version, "served")).collect();
        served.sort_by_key(|version| std::cmp::Reverse(rank(str_at(version, "name"))));
        let stored = self.texts("status.storedVersions");
        served.into_iter().map(|version| Arc::new(Version::read(self, version, storage, &stored, group))).collect()
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, the larger number first, then everything else by name.
pub fn rank(version: &str) -> (bool, u8, u64, u64, std::cmp::Reverse<String>) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (major, rest) = rest.split_at(digits(rest));
        let major: u64 = major.parse().ok().filter(|major| *major > 0)?;
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        let (stage, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        Some((stage, major, minor.parse().ok().filter(|minor| *minor > 0)?))
    };
    match parsed() {
        Some((stage, major, minor)) => (true, stage, major, minor, std::cmp::Reverse(String::new())),
        None => (false, 0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_as_kubernetes_does() {
        let mut versions =
            ["foo10", "v1", "v11alpha2", "v3beta1", "foo1", "v10", "v11beta2", "v12alpha1", "v2", "v10beta3"];
        versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        let expect = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        assert_eq!(versions, expect);
    }
}
