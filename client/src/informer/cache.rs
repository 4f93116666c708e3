//! The pure part of an informer: the objects by namespace and name, their indexes, and which changes bring the copy
//! to the server's state. Never does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::meta::Object;

use super::Change;

type IndexFn<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

struct Index<T> {
    key: IndexFn<T>,
    members: BTreeMap<String, BTreeSet<String>>,
}

pub(super) struct Cache<T> {
    objects: BTreeMap<String, Arc<T>>,
    indexes: BTreeMap<&'static str, Index<T>>,
}

/// Namespaces hold no slash and sort before their objects, so one namespace is one range.
pub(super) fn key(ns: &str, name: &str) -> String {
    let mut key = String::with_capacity(ns.len() + name.len() + 1);
    key.push_str(ns);
    key.push('/');
    key.push_str(name);
    key
}

fn key_of<T: Object>(object: &T) -> String {
    key(&object.meta().namespace, &object.meta().name)
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Cache { objects: BTreeMap::new(), indexes: BTreeMap::new() }
    }
}

impl<T: Object> Cache<T> {
    pub fn get(&self, ns: &str, name: &str) -> Option<Arc<T>> {
        self.objects.get(&key(ns, name)).cloned()
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn list(&self) -> Vec<Arc<T>> {
        self.objects.values().cloned().collect()
    }

    pub fn list_namespace(&self, ns: &str) -> Vec<Arc<T>> {
        let start = key(ns, "");
        self.objects.range(start.clone()..).take_while(|(k, _)| k.starts_with(&start)).map(|(_, o)| o.clone()).collect()
    }

    pub fn add_index(&mut self, name: &'static str, key: IndexFn<T>) {
        let mut index = Index { key, members: BTreeMap::new() };
        for (id, object) in &self.objects {
            index.insert(id, object);
        }
        self.indexes.insert(name, index);
    }

    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<T>> {
        let Some(members) = self.indexes.get(name).and_then(|index| index.members.get(value)) else {
            return Vec::new();
        };
        members.iter().filter_map(|id| self.objects.get(id).cloned()).collect()
    }

    /// An object was added or modified. One that was deleted and made again meanwhile is told as both.
    pub fn apply(&mut self, object: T) -> Vec<Change<T>> {
        let (id, new) = (key_of(&object), Arc::new(object));
        let old = self.objects.insert(id.clone(), new.clone());
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&id, old);
            }
            index.insert(&id, &new);
        }
        match old {
            Some(old) if old.meta().uid != new.meta().uid => {
                vec![Change::Deleted(old), Change::Applied { old: None, new }]
            }
            Some(old) if old.meta().resource_version == new.meta().resource_version => Vec::new(),
            old => vec![Change::Applied { old, new }],
        }
    }

    /// An object is gone; `last` is its final state where the server said it.
    pub fn remove(&mut self, ns: &str, name: &str, last: Option<T>) -> Vec<Change<T>> {
        let id = key(ns, name);
        let Some(old) = self.objects.remove(&id) else { return Vec::new() };
        for index in self.indexes.values_mut() {
            index.remove(&id, &old);
        }
        vec![Change::Deleted(last.map_or(old, Arc::new))]
    }

    /// The whole state at once, after a list: the difference becomes changes.
    pub fn replace(&mut self, objects: Vec<T>) -> Vec<Change<T>> {
        let present: BTreeSet<String> = objects.iter().map(key_of).collect();
        let absent: Vec<Arc<T>> =
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

impl<T> Index<T> {
    fn insert(&mut self, id: &str, object: &T) {
        for value in (self.key)(object) {
            self.members.entry(value).or_default().insert(id.to_owned());
        }
    }

    fn remove(&mut self, id: &str, object: &T) {
        for value in (self.key)(object) {
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
