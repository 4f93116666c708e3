//! Every distinct text, resource, pod spec and label set once, with a small number where arrays need one. Decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::Taint;
use crate::pod::{PodInfo, Spec, Tags};

/// Labels of a machine as sorted pairs of shared strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    #[cfg(test)]
    pub fn of(labels: &BTreeMap<String, String>) -> Self {
        Labels(labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok().map(|at| self.0[at].1.as_ref())
    }
}

/// An extended resource or a size of huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

/// Values that are shared; those that nobody holds any more are let go when as many again have come.
#[derive(Debug)]
struct Shared<T> {
    known: HashMap<Arc<T>, ()>,
    sweep_at: usize,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared { known: HashMap::new(), sweep_at: 1024 }
    }
}

impl<T: Hash + Eq> Shared<T> {
    fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some((known, ())) = self.known.get_key_value(&*value) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|held, ()| Arc::strong_count(held) > 1);
            self.sweep_at = 1024.max(self.known.len() * 2);
        }
        self.known.insert(value.clone(), ());
        value
    }
}

#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: BTreeSet<Arc<str>>,
    taints: BTreeSet<Arc<Taint>>,
    resources: Vec<Arc<str>>,
    specs: Shared<Spec>,
    tags: Shared<Tags>,
}

impl Interner {
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    pub fn labels(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        Labels(labels.iter().map(|(k, v)| (self.text(k), self.text(v))).collect())
    }

    pub fn taint(&mut self, taint: &Taint) -> Arc<Taint> {
        if let Some(known) = self.taints.get(taint) {
            return known.clone();
        }
        let new = Arc::new(taint.clone());
        self.taints.insert(new.clone());
        new
    }

    /// There are few; after 65,535 names the rest share the last number and fit nowhere more than it does.
    pub fn resource(&mut self, name: &str) -> ResourceId {
        let known = self.resources.iter().position(|known| &**known == name);
        let at = known.unwrap_or_else(|| {
            self.resources.push(name.into());
            self.resources.len() - 1
        });
        ResourceId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.resources.get(usize::from(id.0)).map_or("unknown", |name| name)
    }

    /// The same pod, holding what others hold already.
    pub fn adopt(&mut self, info: PodInfo) -> PodInfo {
        PodInfo { spec: self.specs.share(info.spec), tags: self.tags.share(info.tags), ..info }
    }
}
