//! Keeps what is served in step with the definitions in the cache, and their status in step with what is served. Decides when a
//! custom resource begins and ends; names and rules are decided by its neighbours. Every server does the same, each for itself.

use super::definition::Definition;
use super::names;
use crate::bootstrap::{OwnWrites, identity};
use crate::cache::{Dispatch, From, Resource, Selection};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use crate::rest::call::Call;
use crate::rest::delete::{DeleteOptions, delete_collection};
use crate::rest::update::update;
use crate::served::Served;
use gantry_apimachinery::kinds::CUSTOM_RESOURCE_DEFINITION;
use gantry_apimachinery::status::Reason;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Holds a deleted definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const QUEUE: usize = 1_024;
/// How long a request waits for definitions that this server has yet to read.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at what holds the end of a definition.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// How far the definitions have been read.
pub struct Custom {
    read: watch::Sender<u64>,
}

impl Default for Custom {
    fn default() -> Self {
        Self { read: watch::Sender::new(0) }
    }
}

impl Custom {
    /// Waits until every definition that was acknowledged before now counts; not long, and without complaint.
    pub async fn caught_up(&self, core: &Core) {
        let definitions = core.stored_kind(&CUSTOM_RESOURCE_DEFINITION);
        let wait = async {
            let now = definitions.group.store.read_revision().await.ok()?;
            definitions.group.wait_for(now.0).await.ok()?;
            let newest = definitions.resource.changed_at();
            self.read.subscribe().wait_for(|read| *read >= newest).await.ok().map(drop)
        };
        let _ = tokio::time::timeout(PATIENCE, wait).await;
    }

    /// Is told of each reading.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.read.subscribe()
    }

    /// Waits for the first reading.
    pub async fn ready(&self) {
        // The sender lives in `self`, so it cannot be gone.
        let _ = self.read.subscribe().wait_for(|read| *read > 0).await;
    }
}

/// A definition that is served.
struct Kept {
    object: Value,
    resource: Arc<Resource>,
    served: Vec<Arc<Served>>,
    /// Its end is being carried out.
    ending: bool,
}

/// Runs until cancelled.
pub async fn run(core: Arc<Core>, cancel: CancellationToken) {
    let mut upkeep = Upkeep { core, kept: HashMap::new(), cancel: cancel.clone() };
    let definitions = upkeep.core.stored_kind(&CUSTOM_RESOURCE_DEFINITION).resource.clone();
    while !cancel.is_cancelled() {
        let Ok(mut subscription) = definitions.subscribe(From::Contents, Dispatch::Everything, QUEUE) else { continue };
        loop {
            let read = definitions.changed_at();
            // A status that was written just now makes the difference between served and not: its event brings the next look.
            if upkeep.settle().await == Told::Nothing {
                upkeep.core.custom.read.send_replace(read.max(1));
            }
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                event = subscription.events.recv() => event,
            };
            if event.is_none() {
                break;
            }
            // All that is there is read at once.
            while subscription.events.try_recv().is_ok() {}
        }
    }
}

/// What a look at the definitions wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Status,
}

struct Upkeep {
    core: Arc<Core>,
    kept: HashMap<String, Kept>,
    cancel: CancellationToken,
}

impl Upkeep {
    /// One look at all definitions.
    async fn settle(&mut self) -> Told {
        let snapshot = self.core.stored_kind(&CUSTOM_RESOURCE_DEFINITION).resource.snapshot();
        let all: Vec<Value> = snapshot.tree.values().filter_map(|object| object.value().ok()).collect();
        let gone: Vec<String> = self
            .kept
            .keys()
            .filter(|name| !all.iter().any(|one| Definition::of(one).name() == **name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(kept) = self.kept.remove(&name) {
                self.core.stored_kind(&CUSTOM_RESOURCE_DEFINITION).group.remove_custom(kept.resource.kind);
            }
        }
        let mut told = Told::Nothing;
        for object in &all {
            let definition = Definition::of(object);
            if !definition.is_terminating() {
                let others: Vec<&Value> = all
                    .iter()
                    .filter(|other| {
                        let other = Definition::of(other);
                        other.group() == definition.group() && other.name() != definition.name()
                    })
                    .collect();
                if self.tell(object, &others).await == Told::Status {
                    told = Told::Status;
                }
            }
            if definition.has_condition("Established") {
                self.serve(&definition).await;
            }
            if definition.is_terminating() {
                self.end(&definition);
            }
        }
        let mut served: Vec<&Kept> = self.kept.values().collect();
        served.sort_by(|a, b| Definition::of(&a.object).name().cmp(Definition::of(&b.object).name()));
        self.core.serve_custom(served.into_iter().flat_map(|kept| kept.served.iter().cloned()));
        told
    }

    /// Writes the definition's status when it is not what it should be. Whoever else does so writes the same.
    async fn tell(&self, object: &Value, others: &[&Value]) -> Told {
        let status = names::status(object, others, self.core.clock.now());
        if status == object["status"] {
            return Told::Nothing;
        }
        let revision: u64 = str_at(object, "metadata.resourceVersion").parse().unwrap_or(0);
        let user = identity();
        let own = OwnWrites { core: &self.core, user: &user };
        let name = Definition::of(object).name();
        let call = Call { subresource: Some("status"), ..own.call(&CUSTOM_RESOURCE_DEFINITION, "", name) };
        let written = update(&call, &|current| {
            let mut new = current.clone();
            new["status"] = names::status(current, others, call.now);
            Ok(new)
        })
        .await;
        // Nothing newer will come of a write that changed nothing.
        let told = match &written {
            Ok(written) if written.revision > revision => Told::Status,
            _ => Told::Nothing,
        };
        report(name, written.map(drop));
        told
    }

    async fn serve(&mut self, definition: &Definition<'_>) {
        let name = definition.name();
        let before = self.kept.get(name);
        if before.is_some_and(|kept| definition.same_rules(&kept.object)) {
            return;
        }
        let Some(storage) = definition.storage_version() else { return };
        let group = self.core.stored_kind(&CUSTOM_RESOURCE_DEFINITION).group.clone();
        let selectable = definition.selectable();
        let stored = definition.kind(storage);
        let same_objects = |kept: &&Kept| {
            kept.resource.selectable == selectable && kept.resource.kind.key("n", "o") == stored.key("n", "o")
        };
        let resource = match before.filter(same_objects) {
            Some(kept) => kept.resource.clone(),
            None => match group.add_custom(stored, selectable).await {
                Some(resource) => resource,
                None => return,
            },
        };
        let served = definition.versions(&group).into_iter();
        let served = served
            .map(|version| Arc::new(Served::custom(version.kind, resource.clone(), group.clone(), version)))
            .collect();
        let ending = before.is_some_and(|kept| kept.ending);
        self.kept.insert(name.to_owned(), Kept { object: definition.object.clone(), resource, served, ending });
    }

    /// Has the objects of a deleted definition deleted, and then lets go of it.
    fn end(&mut self, definition: &Definition<'_>) {
        let name = definition.name().to_owned();
        if !items(definition.object, "metadata.finalizers").iter().any(|finalizer| finalizer == CLEANUP) {
            return;
        }
        let served = match self.kept.get_mut(&name) {
            Some(kept) if kept.ending => return,
            Some(kept) => {
                kept.ending = true;
                kept.served.first().cloned()
            }
            // It was never served: nothing can be in the store.
            None => None,
        };
        let (core, cancel) = (self.core.clone(), self.cancel.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = end(&core, &name, served) => {}
            }
        });
    }
}

async fn end(core: &Core, name: &str, served: Option<Arc<Served>>) {
    let user = identity();
    let own = OwnWrites { core, user: &user };
    if let Some(served) = served {
        loop {
            let call = Call { served: &served, ..own.call(&CUSTOM_RESOURCE_DEFINITION, "", "") };
            let deleted = delete_collection(&call, &Selection::everything_in(""), &DeleteOptions::default()).await;
            report(name, deleted.map(drop));
            if served.resource.is_empty() {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    loop {
        let call = own.call(&CUSTOM_RESOURCE_DEFINITION, "", name);
        let released = |current: &Value| {
            let mut new = current.clone();
            if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != CLEANUP);
            }
            Ok(new)
        };
        match update(&call, &released).await {
            Err(status) if status.code() != 404 => report(name, Err(status)),
            _ => return,
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Whoever changed it meanwhile is heard next.
fn report(name: &str, outcome: Outcome<()>) {
    if let Err(status) = outcome
        && !matches!(status.reason, Reason::NotFound | Reason::Conflict)
    {
        tracing::warn!(definition = name, message = %status.message, "a custom resource definition could not be settled");
    }
}
