//! What the loops read of a CustomResourceDefinition: under which name its objects are found.

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    pub metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    group: String,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    accepted_names: Names,
    conditions: Vec<super::Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: String,
    plural: String,
    singular: String,
}

impl Object for CustomResourceDefinition {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CustomResourceDefinition {
    /// The kind of its objects in a version that is served, the stored one if it can be; `None` before it is established.
    pub fn kind(&self) -> Option<&'static Kind> {
        let served = || self.spec.versions.iter().filter(|version| version.served);
        let version = served().find(|version| version.storage).or_else(|| served().next())?;
        self.in_version(&version.name)
    }

    /// As [`Self::kind`], in this version.
    pub fn in_version(&self, name: &str) -> Option<&'static Kind> {
        let established = |condition: &super::Condition| condition.kind == "Established" && condition.status == "True";
        self.status.conditions.iter().find(|condition| established(condition))?;
        self.spec.versions.iter().find(|version| version.served && version.name == name)?;
        let names = &self.status.accepted_names;
        Some(kinds::intern(&kinds::Definition {
            group: self.spec.group.clone(),
            version: name.to_owned(),
            kind: names.kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            namespaced: self.spec.scope == "Namespaced",
            ..kinds::Definition::default()
        }))
    }

    /// Whether objects of this group and kind are its own.
    pub fn defines(&self, group: &str, kind: &str) -> bool {
        self.spec.group == group && self.status.accepted_names.kind == kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_is_known_once_it_is_established() {
        let definition = |established: &str| -> CustomResourceDefinition {
            serde_json::from_value(json!({
                "metadata": {"name": "widgets.e.com"},
                "spec": {"group": "e.com", "scope": "Namespaced", "versions": [
                    {"name": "v1", "served": true}, {"name": "v2", "served": false, "storage": true}]},
                "status": {"acceptedNames": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                    "conditions": [{"type": "Established", "status": established}]},
            }))
            .unwrap()
        };
        assert_eq!(definition("False").kind(), None);
        let known = definition("True");
        assert_eq!(known.kind().unwrap().path("n", "a"), "/apis/e.com/v1/namespaces/n/widgets/a");
        assert_eq!(known.in_version("v2"), None, "it is not served");
        assert!(known.defines("e.com", "Widget") && !known.defines("e.com", "Other"));
    }
}
