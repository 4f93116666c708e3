//! Keeps APIServices in step with what is served, and other servers looked at. Decides when to look again; every server of a cluster
//! does the same, each for itself, and whoever writes a status second finds it written.

use super::available::{Verdict, reachable};
use super::local::{self, Step};
use super::{Priority, Remote, Seen, Table, look};
use crate::bootstrap::{OwnWrites, identity};
use crate::cache::{Dispatch, Event, From, Resource};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{at, i64_at, str_at};
use crate::rest::call::Call;
use crate::rest::delete::{DeleteOptions, Preconditions, delete};
use crate::rest::update::update;
use gantry_apimachinery::kinds::{API_SERVICE, ENDPOINT_SLICE, SERVICE};
use gantry_apimachinery::status::Reason;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

const QUEUE: usize = 1_024;
/// A server that answers is looked at again after that, and all APIServices too.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// One that does not, sooner, and ever later.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Groups that are never handed on: without them nothing here works.
const OURS: [&str; 3] = ["", "apiregistration.k8s.io", "gantry.dev"];

/// Another server, and what keeps looking at it.
struct Kept {
    spec: Value,
    uid: String,
    remote: Arc<Remote>,
    _looking: DropGuard,
}

/// Runs until cancelled.
pub async fn run(core: Arc<Core>, cancel: CancellationToken) {
    let mut upkeep = Upkeep { core: core.clone(), kept: BTreeMap::new(), cancel: cancel.clone() };
    let all = |kind| core.stored_kind(kind).resource.clone();
    let (mut objects, mut services, mut slices) =
        (follow(&all(&API_SERVICE)), follow(&all(&SERVICE)), follow(&all(&ENDPOINT_SLICE)));
    let mut served = core.custom.changes();
    loop {
        let settled = upkeep.settle().await;
        let again = if settled { LOOK_EVERY } else { LOOK_AGAIN };
        let wait = tokio::time::sleep(again);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = &mut wait => break,
                event = objects.recv() => {
                    if event.is_none() {
                        objects = follow(&all(&API_SERVICE));
                    }
                    // All that is there is read at once.
                    while objects.try_recv().is_ok() {}
                    break;
                }
                _ = served.changed() => break,
                event = services.recv() => match event {
                    Some(event) => upkeep.nudge(&event.object.namespace, &event.object.name),
                    None => {
                        services = follow(&all(&SERVICE));
                        upkeep.nudge_all();
                    }
                },
                event = slices.recv() => match event {
                    Some(event) => if let Some(name) = event.object.labels.get("kubernetes.io/service-name") {
                        upkeep.nudge(&event.object.namespace, name);
                    },
                    None => {
                        slices = follow(&all(&ENDPOINT_SLICE));
                        upkeep.nudge_all();
                    }
                },
            }
        }
    }
}

fn follow(resource: &Arc<Resource>) -> mpsc::Receiver<Arc<Event>> {
    match resource.subscribe(From::Now, Dispatch::Everything, QUEUE) {
        Ok(subscription) => subscription.events,
        // From now on nothing is too old.
        Err(_) => mpsc::channel(1).1,
    }
}

struct Upkeep {
    core: Arc<Core>,
    kept: BTreeMap<String, Kept>,
    cancel: CancellationToken,
}

impl Upkeep {
    /// One look at all APIServices. Says whether all that had to be written was.
    async fn settle(&mut self) -> bool {
        let objects = self.objects();
        self.follow(&objects);
        let wanted = |core: &Core| local::wanted(core.registry().kinds());
        let mut steps = local::steps(&objects, &wanted(&self.core));
        if steps.iter().any(|step| matches!(step, Step::Delete { .. })) {
            // Another server may serve what this one has yet to read of.
            self.core.custom.caught_up(&self.core).await;
            steps = local::steps(&self.objects(), &wanted(&self.core));
        }
        let mut settled = true;
        for step in steps {
            let outcome = self.take(&step).await;
            if let Err(status) = outcome
                && !matches!(status.reason, Reason::NotFound | Reason::Conflict)
            {
                tracing::warn!(?step, message = %status.message, "an APIService could not be settled");
                settled = false;
            }
        }
        settled
    }

    fn objects(&self) -> Vec<Value> {
        let snapshot = self.core.stored_kind(&API_SERVICE).resource.snapshot();
        snapshot.tree.values().filter_map(|object| object.value().ok()).collect()
    }

    async fn take(&self, step: &Step) -> Outcome<()> {
        let user = identity();
        let own = OwnWrites { core: &self.core, user: &user };
        match step {
            Step::Create { name, object } => own.ensure(&API_SERVICE, "", name, object.clone()).await,
            Step::Restore { name, spec } => {
                let restored = |old: &Value| {
                    let mut new = old.clone();
                    new["spec"] = spec.clone();
                    Ok(new)
                };
                update(&own.call(&API_SERVICE, "", name), &restored).await.map(drop)
            }
            Step::Delete { name, uid } => {
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                delete(&own.call(&API_SERVICE, "", name), &options).await.map(drop)
            }
            Step::Tell { name } => {
                let call = Call { subresource: Some("status"), ..own.call(&API_SERVICE, "", name) };
                let told = |old: &Value| {
                    let remote = at(old, "spec.service").is_some();
                    Ok(if remote { old.clone() } else { local::with_local_status(old, call.now) })
                };
                update(&call, &told).await.map(drop)
            }
        }
    }

    /// Begins and ends the looking at other servers, and makes the table that requests go by.
    fn follow(&mut self, objects: &[Value]) {
        let mut table = Table::default();
        let mut kept = BTreeMap::new();
        for object in objects {
            let spec = &object["spec"];
            let (group, version) = (str_at(spec, "group"), str_at(spec, "version"));
            let number = |field: &str| i64_at(spec, field).unwrap_or(0);
            let priority = Priority { group: number("groupPriorityMinimum"), version: number("versionPriority") };
            table.priorities.entry(group.to_owned()).or_default().insert(version.to_owned(), priority);
            if at(spec, "service").is_none() || OURS.contains(&group) {
                continue;
            }
            let name = str_at(object, "metadata.name");
            let uid = str_at(object, "metadata.uid");
            let before = self.kept.remove(name).filter(|one| one.spec == *spec && one.uid == uid);
            let Some(one) = before.or_else(|| self.begin(object, name, uid)) else { continue };
            let remotes = table.remotes.entry(group.to_owned()).or_default();
            remotes.insert(version.to_owned(), one.remote.clone());
            kept.insert(name.to_owned(), one);
        }
        // What is left is looked at no longer.
        self.kept = kept;
        self.core.aggregation.table.store(Arc::new(table));
    }

    fn begin(&self, object: &Value, name: &str, uid: &str) -> Option<Kept> {
        let identity = self.core.aggregation.identity.as_ref();
        let remote = Arc::new(Remote::read(object, &self.core.stored_kind(&SERVICE).group, identity)?);
        let cancel = self.cancel.child_token();
        tokio::spawn(keep_looking(self.core.clone(), name.to_owned(), remote.clone(), cancel.clone()));
        Some(Kept { spec: object["spec"].clone(), uid: uid.to_owned(), remote, _looking: cancel.drop_guard() })
    }

    fn nudge(&self, namespace: &str, service: &str) {
        let stands = |remote: &Remote| *remote.place.namespace == *namespace && *remote.place.name == *service;
        self.kept.values().filter(|one| stands(&one.remote)).for_each(|one| one.remote.nudged.notify_one());
    }

    fn nudge_all(&self) {
        self.kept.values().for_each(|one| one.remote.nudged.notify_one());
    }
}

/// Looks at one server until it is of no concern any more.
async fn keep_looking(core: Arc<Core>, name: String, remote: Arc<Remote>, cancel: CancellationToken) {
    let mut wait = LOOK_AGAIN;
    loop {
        let looking = async {
            let verdict = look_once(&remote).await;
            if let Err(status) = tell(&core, &name, &remote, &verdict).await
                && status.code() != 404
            {
                tracing::warn!(name, message = %status.message, "the availability of an APIService could not be written");
            }
            if verdict.available {
                let documents = look::documents(&remote, &remote.seen.load().documents).await;
                let seen = Seen { documents, ..Seen::clone(&remote.seen.load()) };
                remote.seen.store(Arc::new(seen));
            }
            verdict.available
        };
        let available = tokio::select! {
            () = cancel.cancelled() => return,
            available = looking => available,
        };
        wait = if available { LOOK_EVERY } else { LOOK_EVERY.min(wait * 2) };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = remote.nudged.notified() => wait = LOOK_AGAIN,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn look_once(remote: &Remote) -> Verdict {
    let (verdict, resources) = match reachable(&remote.place) {
        Err(verdict) => (verdict, None),
        Ok(()) => match look::resources(remote).await {
            Ok(resources) => (Verdict::passed(), resources),
            Err(why) => (Verdict::failed("FailedDiscoveryCheck", why), None),
        },
    };
    let before = remote.seen.load();
    remote.seen.store(Arc::new(Seen {
        available: verdict.available,
        fresh: resources.is_some(),
        resources: resources.map_or_else(|| before.resources.clone(), Arc::new),
        documents: before.documents.clone(),
    }));
    verdict
}

async fn tell(core: &Core, name: &str, remote: &Remote, verdict: &Verdict) -> Outcome<()> {
    let told = |object: &Value| {
        // Another Service by now: another one looks at it.
        let same = str_at(object, "spec.service.name") == &*remote.place.name
            && str_at(object, "spec.service.namespace") == &*remote.place.namespace;
        !same || verdict.is_told(object)
    };
    let cached = core.cached(&API_SERVICE, "", name).and_then(|object| object.value().ok());
    if cached.is_some_and(|object| told(&object)) {
        return Ok(());
    }
    let user = identity();
    let own = OwnWrites { core, user: &user };
    let call = Call { subresource: Some("status"), ..own.call(&API_SERVICE, "", name) };
    let with_verdict = |old: &Value| Ok(if told(old) { old.clone() } else { verdict.told(old, call.now) });
    update(&call, &with_verdict).await.map(drop)
}
