//! What a reconcile asks for: writes in order, a status, events and a time to look again. Plain data that a test compares;
//! it never sends anything (see `edge`).

use std::time::Duration;

use gantry_apimachinery::kinds::Kind;
use gantry_client::{DeleteOptions, EventType, ObjectRef, Patch};
use serde_json::Value;

/// One reconcile's answer. An empty plan says that the object is settled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Done in order; the first step that fails ends the list.
    pub steps: Vec<Step>,
    /// Written last, also when a step failed: a failure must be visible. `None` when nothing changed.
    pub status: Option<Write>,
    /// Look again after this long although nothing happened.
    pub requeue: Option<Duration>,
    /// Said once the steps are done.
    pub events: Vec<Note>,
}

/// Writes that belong together.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    One(Write),
    /// At once, bounded by the edge; every one is tried.
    All(Vec<Write>),
    /// One at first, with each that went well one more at a time: when the first create is refused (quota, a webhook) the
    /// other thousand are not sent.
    SlowStart(Vec<Write>),
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub kind: &'static Kind,
    pub namespace: String,
    /// Empty for a create with `generateName`.
    pub name: String,
    pub verb: Verb,
    pub announce: Option<Box<Announce>>,
}

/// What the request does.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    Create(Value),
    Patch {
        subresource: Option<&'static str>,
        patch: Patch,
    },
    /// Posts or puts a whole object to a subresource.
    Replace {
        subresource: &'static str,
        body: Value,
    },
    Delete(DeleteOptions),
}

/// An event about a write's outcome. `{name}` is the written object's name, `{error}` the failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    pub on: ObjectRef,
    pub done: Option<(&'static str, String)>,
    pub failed: Option<(&'static str, String)>,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub on: ObjectRef,
    pub event_type: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl Plan {
    /// Nothing to write, nothing to say. (A later look may still be asked for.)
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty() && self.status.is_none() && self.events.is_empty()
    }

    pub fn push(&mut self, write: Write) {
        self.steps.push(Step::One(write));
    }

    /// Adds a step unless it is empty.
    pub fn push_all(&mut self, writes: Vec<Write>) {
        if !writes.is_empty() {
            self.steps.push(Step::All(writes));
        }
    }

    /// Adds creates unless there are none.
    pub fn push_slow_start(&mut self, writes: Vec<Write>) {
        if !writes.is_empty() {
            self.steps.push(Step::SlowStart(writes));
        }
    }

    /// Keeps the earliest of the times to look again.
    pub fn requeue_in(&mut self, after: Duration) {
        self.requeue = Some(self.requeue.map_or(after, |have| have.min(after)));
    }

    pub fn note(&mut self, on: &ObjectRef, event_type: EventType, reason: &'static str, message: impl Into<String>) {
        self.events.push(Note { on: on.clone(), event_type, reason, message: message.into() });
    }

    /// All writes in the order in which they would be sent.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let stepped = self.steps.iter().flat_map(|step| match step {
            Step::One(write) => std::slice::from_ref(write),
            Step::All(writes) | Step::SlowStart(writes) => writes.as_slice(),
        });
        stepped.chain(&self.status)
    }
}

impl Write {
    pub fn create(kind: &'static Kind, namespace: &str, body: Value) -> Self {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Self::new(kind, namespace, &name, Verb::Create(body))
    }

    /// RFC 7396 on the object itself.
    pub fn merge(kind: &'static Kind, namespace: &str, name: &str, body: Value) -> Self {
        Self::new(kind, namespace, name, Verb::Patch { subresource: None, patch: Patch::Merge(body) })
    }

    /// RFC 7396 on the status subresource.
    pub fn status(kind: &'static Kind, namespace: &str, name: &str, body: Value) -> Self {
        Self::new(kind, namespace, name, Verb::Patch { subresource: Some("status"), patch: Patch::Merge(body) })
    }

    /// RFC 6902 on the object itself; a `test` operation makes it conditional.
    pub fn json(kind: &'static Kind, namespace: &str, name: &str, operations: Value) -> Self {
        Self::new(kind, namespace, name, Verb::Patch { subresource: None, patch: Patch::Json(operations) })
    }

    pub fn delete(kind: &'static Kind, namespace: &str, name: &str, options: DeleteOptions) -> Self {
        Self::new(kind, namespace, name, Verb::Delete(options))
    }

    pub fn new(kind: &'static Kind, namespace: &str, name: &str, verb: Verb) -> Self {
        Write { kind, namespace: namespace.to_owned(), name: name.to_owned(), verb, announce: None }
    }

    /// Says the outcome as an event on `on`.
    #[must_use]
    pub fn announced(
        mut self,
        on: &ObjectRef,
        done: Option<(&'static str, &str)>,
        failed: Option<(&'static str, &str)>,
    ) -> Self {
        let own = |(reason, text): (&'static str, &str)| (reason, text.to_owned());
        self.announce = Some(Box::new(Announce { on: on.clone(), done: done.map(own), failed: failed.map(own) }));
        self
    }
}
