//! The pure part of an informer: the objects by namespace and name, their indexes, and which changes bring the copy
//! to the server's state. Never does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Change;
use super::held::{Entry, Held};

type IndexFn = Arc<dyn Fn(&dyn Held) -> Vec<String> + Send + Sync>;
/// Told of an object's state before and after every change.
type ViewFn = Arc<dyn Fn(Option<&Entry>, Option<&Entry>) + Send + Sync>;

struct Index {
    key: IndexFn,
    members: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Default)]
pub(super) struct Cache {
    objects: BTreeMap<String, Entry>,
    indexes: BTreeMap<&'static str, Index>,
    views: Vec<ViewFn>,
}

/// Namespaces hold no slash and sort before their objects, so one namespace is one range.
pub(super) fn key(ns: &str, name: &str) -> String {
    let mut key = String::with_capacity(ns.len() + name.len() + 1);
    key.push_str(ns);
    key.push('/');
    key.push_str(name);
    key
}

fn key_of(object: &dyn Held) -> String {
    key(&object.meta().namespace, &object.meta().name)
}

impl Cache {
    pub fn get(&self, ns: &str, name: &str) -> Option<Entry> {
        self.objects.get(&key(ns, name)).cloned()
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// All objects, in order.
    pub fn each(&self, take: &mut dyn FnMut(&Entry)) {
        self.objects.values().for_each(take);
    }

    pub fn each_in_namespace(&self, ns: &str, take: &mut dyn FnMut(&Entry)) {
        let start = key(ns, "");
        let range = self.objects.range(start.clone()..).take_while(|(k, _)| k.starts_with(&start));
        range.for_each(|(_, object)| take(object));
    }

    pub fn add_index(&mut self, name: &'static str, key: IndexFn) {
        let mut index = Index { key, members: BTreeMap::new() };
        for (id, object) in &self.objects {
            index.insert(id, object.as_ref());
        }
        self.indexes.insert(name, index);
    }

    /// The view is told of everything that is there, and of every change as it happens.
    pub fn add_view(&mut self, view: ViewFn) {
        self.objects.values().for_each(|object| view(None, Some(object)));
        self.views.push(view);
    }

    pub fn each_by_index(&self, name: &str, value: &str, take: &mut dyn FnMut(&Entry)) {
        let members = self.indexes.get(name).and_then(|index| index.members.get(value));
        members.into_iter().flatten().filter_map(|id| self.objects.get(id)).for_each(take);
    }

    /// An object was added or modified. One that was deleted and made again meanwhile is told as both.
    pub fn apply(&mut self, new: Entry) -> Vec<Change<dyn Held>> {
        let id = key_of(new.as_ref());
        let old = self.objects.insert(id.clone(), new.clone());
        for index in self.indexes.values_mut() {
            index.change(&id, old.as_deref(), new.as_ref());
        }
        self.views.iter().for_each(|view| view(old.as_ref(), Some(&new)));
        match old {
            Some(old) if old.meta().uid != new.meta().uid => {
                vec![Change::Deleted(old), Change::Applied { old: None, new }]
            }
            Some(old) if old.meta().resource_version == new.meta().resource_version => Vec::new(),
            old => vec![Change::Applied { old, new }],
        }
    }

    /// An object is gone; `last` is its final state where the server said it.
    pub fn remove(&mut self, ns: &str, name: &str, last: Option<Entry>) -> Vec<Change<dyn Held>> {
        let id = key(ns, name);
        let Some(old) = self.objects.remove(&id) else { return Vec::new() };
        for index in self.indexes.values_mut() {
            index.remove(&id, (index.key)(old.as_ref()));
        }
        self.views.iter().for_each(|view| view(Some(&old), None));
        vec![Change::Deleted(last.unwrap_or(old))]
    }

    /// The whole state at once, after a list: the difference becomes changes.
    pub fn replace(&mut self, objects: Vec<Entry>) -> Vec<Change<dyn Held>> {
        let present: BTreeSet<String> = objects.iter().map(|object| key_of(object.as_ref())).collect();
        let absent: Vec<Entry> =
            self.objects.iter().filter(|(id, _)| !present.contains(*id)).map(|(_, o)| o.clone()).collect();
        let mut changes = Vec::new();
        for object in absent {
            changes.extend(self.remove(&object.meta().namespace, &object.meta().name, None));
        }
        for object in objects {
            changes.extend(self.apply(object));
        }
        changes
    }
}

impl Index {
    fn insert(&mut self, id: &str, object: &dyn Held) {
        for value in (self.key)(object) {
            self.members.entry(value).or_default().insert(id.to_owned());
        }
    }

    /// Most changes leave an object under the values where it is.
    fn change(&mut self, id: &str, old: Option<&dyn Held>, new: &dyn Held) {
        let before = old.map(|old| (self.key)(old)).unwrap_or_default();
        let after = (self.key)(new);
        if before != after {
            self.remove(id, before);
            for value in after {
                self.members.entry(value).or_default().insert(id.to_owned());
            }
        }
    }

    fn remove(&mut self, id: &str, values: Vec<String>) {
        for value in values {
            if let Some(members) = self.members.get_mut(&value) {
                members.remove(id);
                if members.is_empty() {
                    self.members.remove(&value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
