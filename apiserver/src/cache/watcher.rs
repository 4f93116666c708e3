//! The watchers of one resource, found by what they select. Decides whom an event is offered to; never what they are sent.
//!
//! A pod's event is offered to the watchers of its `spec.nodeName`, of its namespace, of its name and of everything: ten thousand
//! node agents are not asked one by one.

use super::object::Object;
use super::resource::Event;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The narrowest index that a watcher's selection fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dispatch {
    Everything,
    Namespace(Box<str>),
    /// `namespace/name`, or the name of a cluster-scoped object.
    Name(Box<str>),
    /// The value of the selectable field at this index.
    Field(usize, Box<str>),
}

#[derive(Default)]
pub struct Watchers {
    by: HashMap<Dispatch, Vec<mpsc::Sender<Arc<Event>>>>,
    indexed_fields: Vec<usize>,
}

impl Watchers {
    pub fn add(&mut self, dispatch: Dispatch, sender: mpsc::Sender<Arc<Event>>) {
        if let Dispatch::Field(field, _) = dispatch
            && !self.indexed_fields.contains(&field)
        {
            self.indexed_fields.push(field);
        }
        let list = self.by.entry(dispatch).or_default();
        // A watcher of something that never changes would otherwise stay here after it left.
        list.retain(|sender| !sender.is_closed());
        list.push(sender);
    }

    pub fn count(&self) -> usize {
        self.by.values().map(|list| list.iter().filter(|sender| !sender.is_closed()).count()).sum()
    }

    /// Of those that are offered every event; some may have gone.
    pub fn of_everything(&self) -> usize {
        self.by.get(&Dispatch::Everything).map_or(0, Vec::len)
    }

    /// Offers the event to every watcher that could see it, as it was or as it is. Who cannot take it is cut off.
    pub fn dispatch(&mut self, event: &Arc<Event>, namespaced: bool) {
        self.offer(&Dispatch::Everything, event);
        let object = &event.object;
        if namespaced {
            self.offer(&Dispatch::Namespace(object.namespace.clone()), event);
        }
        self.offer(&Dispatch::Name(object.path().into_boxed_str()), event);
        for at in 0..self.indexed_fields.len() {
            let field = self.indexed_fields[at];
            let value = |object: &Object| object.fields.get(field).cloned().unwrap_or_default();
            let now = value(object);
            let before = event.previous.as_deref().map(value).filter(|before| *before != now);
            self.offer(&Dispatch::Field(field, now), event);
            if let Some(before) = before {
                self.offer(&Dispatch::Field(field, before), event);
            }
        }
    }

    fn offer(&mut self, to: &Dispatch, event: &Arc<Event>) {
        let Some(list) = self.by.get_mut(to) else { return };
        // A full queue is a slow watcher: dropping the sender ends its stream, and it starts again from its last revision.
        list.retain(|sender| sender.try_send(event.clone()).is_ok());
        if list.is_empty() {
            self.by.remove(to);
        }
    }
}
