//! The watch cache of one resource: the current tree, a bounded ring of history, and its watchers.
//!
//! It decides the one order in which every watcher sees this resource, who is asked about an event, and what history is kept. It
//! never talks to the store; the group's feed calls it.

use super::object::{EventType, Object};
use super::selector::Selection;
use super::watcher::{Dispatch, Watchers};
use crate::kinds::{Selectable, strategy};
use gantry_apimachinery::kinds::Kind;
use imbl::OrdMap;
use parking_lot::RwLock;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// The current objects by store path (`namespace/name`), in the store's key order.
pub type Tree = OrdMap<Box<str>, Arc<Object>>;

/// Where the objects of a namespace stand in a tree.
pub fn in_namespace(namespace: &str) -> Range<Box<str>> {
    format!("{namespace}/").into()..format!("{namespace}0").into()
}

/// One change, shared by history and all watchers.
#[derive(Debug)]
pub struct Event {
    pub kind: EventType,
    pub revision: u64,
    /// The new version; for a deletion the last state, framed at the deleting revision.
    pub object: Arc<Object>,
    /// The version before, for updates: selectors may have matched it.
    pub previous: Option<Arc<Object>>,
    /// Its transaction wrote more of this resource: a watcher that was cut off may have seen a part of the revision only.
    pub shared: bool,
    at_ms: u64,
    /// The previous version framed as the deletion that a watcher sees when the object leaves its selection.
    left: OnceLock<Arc<Object>>,
    /// The Table row, encoded once for all who print it.
    pub(crate) row: OnceLock<bytes::Bytes>,
}

impl Event {
    /// Whether a watcher that was told of events up to `revision` has certainly been told of this one.
    pub fn is_known_at(&self, revision: u64) -> bool {
        self.revision < revision || (self.revision == revision && !self.shared)
    }

    pub fn left(&self) -> &Arc<Object> {
        self.left.get_or_init(|| {
            let last = self.previous.as_ref().unwrap_or(&self.object);
            Arc::new(last.reborn(self.revision, EventType::Deleted))
        })
    }

    /// What this event is to someone who sees only `selection`: it may be the object's arrival or departure, or nothing.
    pub fn seen_by(&self, selection: &Selection) -> Option<(EventType, &Arc<Object>)> {
        let now = self.kind != EventType::Deleted && selection.matches(&self.object);
        let before = match (&self.previous, self.kind) {
            (Some(previous), _) => selection.matches(previous),
            (None, EventType::Deleted) => selection.matches(&self.object),
            (None, _) => false,
        };
        match (before, now) {
            (false, false) => None,
            (false, true) => Some((EventType::Added, &self.object)),
            (true, true) => Some((EventType::Modified, &self.object)),
            (true, false) if self.kind == EventType::Deleted => Some((EventType::Deleted, &self.object)),
            (true, false) => Some((EventType::Deleted, self.left())),
        }
    }
}

/// Is told of every change of a resource's contents, under the resource's lock: before anybody who waits for the change's revision
/// goes on. Must not ask the resource back.
pub trait Follower: Send + Sync {
    /// Everything is new.
    fn reset(&self, tree: &Tree);
    /// One object is new, or gone.
    fn changed(&self, path: &str, object: Option<&Object>);
}

/// How much history one resource keeps.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    pub age_ms: u64,
    pub bytes: usize,
}

struct State {
    tree: Tree,
    /// Every event after this revision is in `history`.
    history_from: u64,
    history: VecDeque<Arc<Event>>,
    history_bytes: usize,
    revision: u64,
    /// Every change up to this revision is here; of `revision` itself some may be missing yet.
    whole: u64,
    watchers: Watchers,
    /// Objects by their `spec.nodeName`, for kinds that have it.
    by_node: HashMap<Box<str>, Tree>,
}

impl State {
    fn index(&mut self, field: Option<usize>, path: &str, old: Option<&Object>, new: Option<&Arc<Object>>) {
        let Some(field) = field else { return };
        if let Some(old) = old
            && new.is_none_or(|new| new.fields[field] != old.fields[field])
            && let Some(tree) = self.by_node.get_mut(&old.fields[field])
        {
            tree.remove(path);
            if tree.is_empty() {
                self.by_node.remove(&old.fields[field]);
            }
        }
        if let Some(new) = new
            && !new.fields[field].is_empty()
        {
            self.by_node.entry(new.fields[field].clone()).or_default().insert(path.into(), new.clone());
        }
    }
}

/// Consistent contents at one revision.
pub struct Snapshot {
    pub tree: Tree,
    pub revision: u64,
}

/// Why a watch cannot start here.
#[derive(Debug, PartialEq, Eq)]
pub struct TooOld {
    pub requested: u64,
    pub oldest: u64,
}

pub struct Resource {
    /// The kind as it is stored.
    pub kind: &'static Kind,
    pub selectable: Vec<Selectable>,
    /// Which selectable field is `spec.nodeName`.
    node_field: Option<usize>,
    limits: HistoryLimits,
    /// The group's revision: everything up to it is in every resource of the group.
    applied: Arc<AtomicU64>,
    follower: OnceLock<Arc<dyn Follower>>,
    state: RwLock<State>,
}

/// A started watch: what already happened, then what will.
pub struct Subscription {
    pub initial: Tree,
    pub replay: Vec<Arc<Event>>,
    /// The contents in `initial` are those of this revision.
    pub revision: u64,
    pub events: mpsc::Receiver<Arc<Event>>,
}

/// From where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The current contents first.
    Contents,
    /// Only what happens from now.
    Now,
    /// Everything after this revision.
    After(u64),
}

impl Resource {
    /// Of a kind of the table.
    pub fn new(kind: &'static Kind, limits: HistoryLimits, applied: Arc<AtomicU64>) -> Self {
        let selectable = strategy(kind.group, kind.plural).selectable().to_vec();
        Self::selectable_by(kind, selectable, limits, applied)
    }

    /// Of a kind whose objects these fields select.
    pub fn selectable_by(
        kind: &'static Kind,
        selectable: Vec<Selectable>,
        limits: HistoryLimits,
        applied: Arc<AtomicU64>,
    ) -> Self {
        Self {
            kind,
            node_field: selectable.iter().position(|field| field.path == "spec.nodeName"),
            selectable,
            limits,
            applied,
            follower: OnceLock::new(),
            state: RwLock::new(State {
                tree: Tree::new(),
                history_from: 0,
                history: VecDeque::new(),
                history_bytes: 0,
                revision: 0,
                whole: 0,
                watchers: Watchers::default(),
                by_node: HashMap::new(),
            }),
        }
    }

    /// Has the follower told of what happens from now on; a resource has at most one.
    pub fn follow(&self, follower: Arc<dyn Follower>) {
        let first = self.follower.set(follower).is_ok();
        debug_assert!(first, "{} is followed already", self.kind.plural);
    }

    /// The contents and the newest revision they are known to be complete at.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        Snapshot { tree: state.tree.clone(), revision: self.revision_of(&state) }
    }

    /// All events up to the group's revision were applied before it was published.
    fn revision_of(&self, state: &State) -> u64 {
        state.whole.max(self.applied.load(Ordering::Acquire))
    }

    /// As [`Self::snapshot`], perhaps without objects that the selection does not match: those of one machine are found by it.
    pub fn snapshot_for(&self, selection: &Selection) -> Snapshot {
        let state = self.state.read();
        let tree = self.indexed(&state, &selection.dispatch(self.kind.namespaced));
        Snapshot { tree, revision: self.revision_of(&state) }
    }

    fn indexed(&self, state: &State, dispatch: &Dispatch) -> Tree {
        match dispatch {
            Dispatch::Field(field, node) if Some(*field) == self.node_field => {
                state.by_node.get(node).cloned().unwrap_or_default()
            }
            _ => state.tree.clone(),
        }
    }

    pub fn get(&self, path: &str) -> Option<Arc<Object>> {
        self.state.read().tree.get(path).cloned()
    }

    /// The objects bound to a machine, and the revision of that knowledge.
    pub fn on_node(&self, node: &str) -> Snapshot {
        let state = self.state.read();
        Snapshot { tree: state.by_node.get(node).cloned().unwrap_or_default(), revision: self.revision_of(&state) }
    }

    /// The newest change of this resource that is here.
    pub fn changed_at(&self) -> u64 {
        self.state.read().revision
    }

    pub fn len(&self) -> usize {
        self.state.read().tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Self::on_node`] knows anything.
    pub fn is_indexed_by_node(&self) -> bool {
        self.node_field.is_some()
    }

    /// How many watchers are told of any change; those of one object, namespace or machine come on top.
    pub fn told_count(&self) -> usize {
        self.state.read().watchers.of_everything()
    }

    pub fn watcher_count(&self) -> usize {
        self.state.read().watchers.count()
    }

    /// Starts a watch. Contents, replay and registration are taken under one lock, so that nothing is lost or seen twice.
    pub fn subscribe(&self, from: From, dispatch: Dispatch, capacity: usize) -> Result<Subscription, TooOld> {
        let (sender, events) = mpsc::channel(capacity);
        let mut state = self.state.write();
        let mut subscription =
            Subscription { initial: Tree::new(), replay: Vec::new(), revision: self.revision_of(&state), events };
        match from {
            From::Now => {}
            From::Contents => subscription.initial = self.indexed(&state, &dispatch),
            From::After(revision) if revision < state.history_from => {
                return Err(TooOld { requested: revision, oldest: state.history_from });
            }
            From::After(revision) => {
                // Rather twice than never: of a shared revision the watcher may have seen a part.
                let seen = |event: &Arc<Event>| event.is_known_at(revision);
                let start = state.history.partition_point(seen);
                subscription.replay = state.history.range(start..).cloned().collect();
            }
        }
        state.watchers.add(dispatch, sender);
        Ok(subscription)
    }

    /// Replaces everything by a list at `revision`; history starts over and every watcher is cut off to list again.
    pub fn reset(&self, objects: Vec<Object>, revision: u64) {
        let mut state = self.state.write();
        let shared = objects.iter().filter(|object| object.revision == revision).count() > 1;
        state.tree = objects.into_iter().map(|object| (object.path().into_boxed_str(), Arc::new(object))).collect();
        state.by_node = HashMap::new();
        for (path, object) in state.tree.clone() {
            state.index(self.node_field, &path, None, Some(&object));
        }
        if let Some(follower) = self.follower.get() {
            follower.reset(&state.tree);
        }
        state.history.clear();
        state.history_bytes = 0;
        // Whoever has seen a part of a shared revision lists again.
        state.history_from = revision + u64::from(shared);
        state.revision = revision;
        state.whole = revision;
        state.watchers = Watchers::default();
    }

    /// A key was written: `object` is its new version, born as [`EventType::Modified`] unless it created the key. `shared`: its
    /// transaction wrote more of this resource.
    pub fn put(&self, path: &str, object: Object, shared: bool, now_ms: u64) -> Arc<Object> {
        let object = Arc::new(object);
        let mut state = self.state.write();
        let previous = state.tree.insert(path.into(), object.clone());
        state.index(self.node_field, path, previous.as_deref(), Some(&object));
        if let Some(follower) = self.follower.get() {
            follower.changed(path, Some(&object));
        }
        let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
        let revision = object.revision;
        self.publish(&mut state, Event { shared, ..event(kind, revision, object.clone(), previous, now_ms) });
        object
    }

    /// A key was deleted at `revision`.
    pub fn delete(&self, path: &str, revision: u64, shared: bool, now_ms: u64) {
        let mut state = self.state.write();
        let Some(last) = state.tree.remove(path) else { return };
        state.index(self.node_field, path, Some(&last), None);
        if let Some(follower) = self.follower.get() {
            follower.changed(path, None);
        }
        let object = Arc::new(last.reborn(revision, EventType::Deleted));
        self.publish(&mut state, Event { shared, ..event(EventType::Deleted, revision, object, None, now_ms) });
    }

    fn publish(&self, state: &mut State, event: Event) {
        let event = Arc::new(event);
        state.revision = event.revision;
        state.whole = state.whole.max(event.revision - 1);
        state.history_bytes += event.object.weight();
        state.history.push_back(event.clone());
        while let Some(oldest) = state.history.front() {
            let too_old = oldest.at_ms + self.limits.age_ms < event.at_ms;
            if !too_old && state.history_bytes <= self.limits.bytes {
                break;
            }
            state.history_bytes -= oldest.object.weight();
            state.history_from = oldest.revision + u64::from(oldest.shared);
            state.history.pop_front();
        }
        state.watchers.dispatch(&event, self.kind.namespaced);
    }
}

fn event(kind: EventType, revision: u64, object: Arc<Object>, previous: Option<Arc<Object>>, at_ms: u64) -> Event {
    Event { kind, revision, object, previous, shared: false, at_ms, left: OnceLock::new(), row: OnceLock::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::kinds::CONFIG_MAP;

    fn resource(history_bytes: usize) -> Resource {
        let limits = HistoryLimits { age_ms: u64::MAX / 2, bytes: history_bytes };
        Resource::new(&CONFIG_MAP, limits, Arc::default())
    }

    fn put(resource: &Resource, name: &str, revision: u64, shared: bool) {
        let text = format!("{{\"metadata\":{{\"namespace\":\"ns\",\"name\":\"{name}\"}}}}");
        let object = Object::parse(text.as_bytes(), revision, EventType::Added, &[]).unwrap();
        resource.put(&format!("ns/{name}"), object, shared, 0);
    }

    fn replayed(resource: &Resource, after: u64) -> Result<usize, TooOld> {
        resource.subscribe(From::After(after), Dispatch::Everything, 4).map(|started| started.replay.len())
    }

    #[test]
    fn a_revision_that_is_here_in_part_is_not_claimed() {
        let resource = resource(1 << 20);
        resource.reset(Vec::new(), 3);
        assert_eq!(resource.snapshot().revision, 3);
        put(&resource, "a", 5, true);
        assert_eq!(resource.snapshot().revision, 4, "more of revision 5 may come");
        put(&resource, "b", 5, true);
        put(&resource, "c", 7, false);
        assert_eq!(resource.snapshot().revision, 6);
        let rows = [(4, 3), (5, 3), (6, 1), (7, 0)];
        for (after, expect) in rows {
            assert_eq!(replayed(&resource, after), Ok(expect), "after {after}");
        }
    }

    #[test]
    fn who_may_have_seen_a_part_of_what_is_forgotten_lists_again() {
        let small = resource(1);
        put(&small, "a", 5, true);
        put(&small, "b", 5, true);
        assert_eq!(replayed(&small, 5), Err(TooOld { requested: 5, oldest: 6 }));
        put(&small, "c", 7, false);
        assert_eq!(replayed(&small, 7), Ok(0));
    }
}
