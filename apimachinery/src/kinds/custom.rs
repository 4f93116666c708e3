//! Kinds that are defined while the process runs, by custom resource definitions.
//!
//! A kind is a few names, and everything that handles objects passes it around as `&'static Kind`. So each distinct definition is
//! kept for ever, once: a definition that is deleted and made again, as tests do, costs nothing more. It holds no schema.

use super::{Kind, StoreGroup, Subresource};
use std::collections::HashSet;
use std::sync::Mutex;

/// The names of a kind, as its definition gives them.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub status: bool,
    pub scale: bool,
}

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CHANGES: &[&str] = &["get", "patch", "update"];

/// The kind of this definition; the same definition answers the same kind.
pub fn intern(definition: &Definition) -> &'static Kind {
    static KNOWN: Mutex<Option<HashSet<&'static Kind>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let wanted = Kind {
        group: text(&definition.group),
        version: text(&definition.version),
        kind: text(&definition.kind),
        plural: text(&definition.plural),
        singular: text(&definition.singular),
        short_names: texts(&definition.short_names),
        categories: texts(&definition.categories),
        namespaced: definition.namespaced,
        verbs: VERBS,
        subresources: subresources(definition),
        store: StoreGroup::State,
    };
    if let Some(kind) = known.get(&wanted) {
        return kind;
    }
    let kind: &'static Kind = Box::leak(Box::new(wanted));
    known.insert(kind);
    kind
}

/// Each text once.
fn text(text: &str) -> &'static str {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.get(text).copied().unwrap_or_else(|| {
        let kept: &'static str = Box::leak(text.into());
        known.insert(kept);
        kept
    })
}

/// Each list once.
fn texts(list: &[String]) -> &'static [&'static str] {
    static KNOWN: Mutex<Option<HashSet<&'static [&'static str]>>> = Mutex::new(None);
    let list: Vec<&'static str> = list.iter().map(|one| text(one)).collect();
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.get(&list[..]).copied().unwrap_or_else(|| {
        let kept: &'static [&'static str] = Box::leak(list.into());
        known.insert(kept);
        kept
    })
}

fn subresources(definition: &Definition) -> &'static [Subresource] {
    static KNOWN: Mutex<Option<HashSet<&'static [Subresource]>>> = Mutex::new(None);
    let mut list = Vec::new();
    if definition.scale {
        list.push(Subresource { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs: CHANGES });
    }
    if definition.status {
        let (group, version, kind) = (text(&definition.group), text(&definition.version), text(&definition.kind));
        list.push(Subresource { name: "status", group, version, kind, verbs: CHANGES });
    }
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.get(&list[..]).copied().unwrap_or_else(|| {
        let kept: &'static [Subresource] = Box::leak(list.into());
        known.insert(kept);
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_kept_once() {
        let widget = |status: bool| Definition {
            group: "example.com".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: vec!["wd".into()],
            namespaced: true,
            status,
            ..Definition::default()
        };
        let kind = intern(&widget(false));
        assert_eq!(kind.key("ns", "a"), "/registry/widgets.example.com/ns/a");
        assert!(std::ptr::eq(kind, intern(&widget(false))));
        assert!(!kind.has_status());
        let other = intern(&widget(true));
        assert!(other.has_status() && other.has_verb("deletecollection") && !std::ptr::eq(kind, other));
        assert!(std::ptr::eq(kind.short_names, other.short_names));
    }
}
