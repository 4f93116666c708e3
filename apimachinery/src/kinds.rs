//! The table of every kind that the API serves: names, verbs, subresources and the store group that holds it.
//!
//! It decides what exists; what a kind means is its strategy's. Adding a kind is one row here and one folder there.

mod custom;
#[cfg(test)]
mod document;
mod table;

pub use custom::{Definition, intern};
pub use table::*;

/// Which Raft group holds a kind's objects. Frozen: moving a kind is a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreGroup {
    State,
    Leases,
    Events,
}

/// One kind of one group and version.
#[derive(Debug, Eq, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "the same fields count for being equal, in another order")]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// As discovery lists them, sorted. Without `get` the kind is virtual: posted, answered, never stored.
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    pub store: StoreGroup,
}

// Nearly always the answer is found in where they are, or in the first of these.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.plural == other.plural
                && self.kind == other.kind
                && self.group == other.group
                && self.version == other.version
                && self.namespaced == other.namespaced
                && self.store == other.store
                && self.singular == other.singular
                && self.short_names == other.short_names
                && self.categories == other.categories
                && self.verbs == other.verbs
                && self.subresources == other.subresources)
    }
}

/// Something below an object's path: `pods/log`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Subresource {
    pub name: &'static str,
    /// The kind that it speaks, with that kind's group and version.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

impl Kind {
    /// `v1`, `apps/v1`: what objects carry as `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
    /// `pods`, `deployments.apps`: how messages and store keys name the resource.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
    /// `Pod`, `Deployment.apps`: how `Invalid` names the kind.
    pub fn qualified_kind(&self) -> String {
        crate::status::qualified_kind(self.group, self.kind)
    }
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }
    /// Whether objects of this kind are kept in the store.
    pub fn is_stored(&self) -> bool {
        self.has_verb("get")
    }
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
    /// The kind whose objects stand behind this one in the store: another version, or another group's name for the same thing.
    pub fn stored_as(&'static self) -> &'static Kind {
        CONVERTED.iter().find(|(served, _)| *served == self).map_or(self, |(_, stored)| stored)
    }
    /// Whether `status` is written apart from the rest.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The API path of one object, or of the collection when `name` is empty. An empty `namespace` means all of them.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version());
        if self.namespaced && !namespace.is_empty() {
            path = format!("{path}/namespaces/{namespace}");
        }
        let collection = format!("{path}/{}", self.plural);
        if name.is_empty() { collection } else { format!("{collection}/{name}") }
    }

    /// The store key of one object. Cluster-scoped kinds ignore `namespace`.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        format!("{}{name}", self.key_prefix(namespace))
    }
    /// What the store keys of a whole namespace start with, or of the whole kind when `namespace` is empty.
    pub fn key_prefix(&self, namespace: &str) -> String {
        let prefix = format!("/registry/{}/", self.resource());
        if self.namespaced && !namespace.is_empty() { format!("{prefix}{namespace}/") } else { prefix }
    }
    /// Namespace and name from a store key of this kind.
    pub fn parse_key<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = key.strip_prefix(&self.key_prefix(""))?;
        if self.namespaced { rest.split_once('/') } else { Some(("", rest)) }
    }
}

/// The kind served under this plural.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// The kind of this name. `group` is empty for the core group.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|k| k.kind == kind && k.group == group && k.version == version)
}

/// The stored kind that a store key belongs to.
pub fn by_key(key: &str) -> Option<&'static Kind> {
    let resource = key.strip_prefix("/registry/")?.split('/').next()?;
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    KINDS.iter().copied().find(|k| k.plural == plural && k.group == group && k.is_stored())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_and_keys() {
        assert_eq!(POD.path("ns", "a"), "/api/v1/namespaces/ns/pods/a");
        assert_eq!(POD.path("", ""), "/api/v1/pods");
        assert_eq!(DEPLOYMENT.path("ns", ""), "/apis/apps/v1/namespaces/ns/deployments");
        assert_eq!(NODE.path("", "n"), "/api/v1/nodes/n");
        assert_eq!(POD.key("ns", "a"), "/registry/pods/ns/a");
        assert_eq!(NODE.key("", "n"), "/registry/nodes/n");
        assert_eq!(LEASE.key("ns", "a"), "/registry/leases.coordination.k8s.io/ns/a");
        assert_eq!(NODE_ALLOCATION.key("", "n"), "/registry/nodeallocations.gantry.dev/n");
        assert_eq!(POD.key_prefix("ns"), "/registry/pods/ns/");
        assert_eq!(POD.parse_key("/registry/pods/ns/a"), Some(("ns", "a")));
        assert_eq!(by_key("/registry/deployments.apps/ns/a"), Some(&DEPLOYMENT));
    }

    #[test]
    fn every_row_is_well_formed_and_unique() {
        let mut seen = BTreeSet::new();
        for k in KINDS {
            assert!(seen.insert((k.group, k.version, k.plural)), "{} twice", k.resource());
            assert_eq!(k.singular, k.kind.to_lowercase());
            assert!(k.verbs.is_sorted(), "{}", k.plural);
            assert!(k.subresources.iter().all(|s| s.verbs.is_sorted()), "{}", k.plural);
            assert_eq!(by_resource(k.group, k.version, k.plural), Some(*k));
            assert_eq!(by_kind(k.group, k.version, k.kind), Some(*k));
        }
    }

    #[test]
    fn short_names_are_unambiguous() {
        let mut seen = BTreeSet::new();
        let stored = KINDS.iter().filter(|kind| kind.stored_as() == **kind);
        assert!(stored.flat_map(|k| k.short_names).all(|s| seen.insert(*s)));
    }
}
