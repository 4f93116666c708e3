//! The agent's one loop: owns every pod's machine, feeds it events, hands its effects to tasks. It decides nothing
//! about a pod that the machine could decide, and does no I/O itself except small files.

pub mod absence;
mod effects;
mod feed;
mod look;
mod objects;
mod orphans;
pub(crate) mod report;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_client::{Client, EventRecorder};
use parking_lot::RwLock;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::api::Pod;
use crate::build::Machine;
use crate::cgroup::{self, CgroupTree};
use crate::checkpoint::Checkpoints;
use crate::config::Config;
use crate::pod::{self, Effect, Event, Facts, Now, PodSeen, State};
use crate::runtime::Runtime;
use crate::volumes::{Objects, Place};
use absence::Absent;

pub(crate) use effects::about;
pub use objects::ApiObjects;
pub use report::Reporter;
pub use view::{PodView, Views};

/// Completions and changes that may wait for the loop; senders wait when it is full.
pub const QUEUE: usize = 1024;
const REFRESH_MS: u64 = 60_000;

/// Everything that reaches the loop.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most messages are of the largest kind, and they live for a moment")]
pub enum Message {
    /// An effect ended, or the runtime showed something, for one pod.
    Pod { uid: String, event: Event },
    /// The runtime shows something that carries the uid of a pod; the agent may not know it.
    Seen { uid: String, seen: PodSeen },
    /// The API has this pod for this machine.
    Desired(Arc<Pod>),
    /// The API said that the pod is gone, or its list lacks it.
    Missing { uid: String },
    /// A whole, trusted list: what it lacks is missing.
    Listed { uids: BTreeSet<String> },
    /// A live read confirmed that the pod is gone, or showed that it is not.
    Confirmed { uid: String, gone: bool },
    /// A ConfigMap or Secret in this namespace changed.
    ObjectChanged { ns: String },
}

/// What tasks need. Shared, never changed.
pub struct Shared {
    pub config: Config,
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub cgroups: Arc<dyn CgroupTree>,
    pub objects: Arc<ApiObjects>,
    pub recorder: EventRecorder,
    pub reporter: Reporter,
    pub checkpoints: Arc<Checkpoints>,
    pub machine: RwLock<Machine>,
    pub views: Views,
    pub out: mpsc::Sender<Message>,
    /// The cluster's identity, once it is known and is ours.
    pub cluster: watch::Sender<Option<String>>,
    /// Images pulled at once.
    pub pulls: tokio::sync::Semaphore,
    pub cancel: CancellationToken,
}

impl Shared {
    pub fn machine(&self) -> Machine {
        self.machine.read().clone()
    }
}

pub fn now() -> Now {
    Now { wall: SystemClock.now(), boot_ms: SystemClock.boottime_ms() }
}

struct Entry {
    state: State,
    place: Arc<Place>,
}

pub struct Agent {
    shared: Arc<Shared>,
    facts: Arc<Facts>,
    pods: BTreeMap<String, Entry>,
    absent: Absent,
    refreshed_ms: u64,
}

impl Agent {
    pub fn new(shared: Arc<Shared>, facts: Facts) -> Self {
        Self { shared, facts: Arc::new(facts), pods: BTreeMap::new(), absent: Absent::default(), refreshed_ms: 0 }
    }

    /// Runs until cancelled. The pods' containers keep running then.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        self.recall();
        tokio::spawn(feed::run(self.shared.clone()));
        tokio::spawn(look::run(self.shared.clone()));
        let cancel = self.shared.cancel.clone();
        loop {
            let wait = self.wait();
            tokio::select! {
                () = cancel.cancelled() => return,
                message = inbox.recv() => match message {
                    Some(message) => self.handle(message),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.tick();
        }
    }

    /// Pods from before a restart: their containers may still run, with or without a control plane.
    fn recall(&mut self) {
        let (pods, bad) = self.shared.checkpoints.pods();
        for problem in bad {
            tracing::warn!(problem, "a checkpoint cannot be read; its pod waits for the API");
        }
        tracing::info!(pods = pods.len(), "recalled pods");
        for pod in pods {
            self.desired(Arc::new(pod));
        }
    }

    fn wait(&self) -> Duration {
        let wakes = self.pods.values().filter_map(|e| e.state.wake_ms);
        let next = wakes.chain(self.absent.wake_ms()).chain([self.refreshed_ms + REFRESH_MS]).min();
        Duration::from_millis(next.unwrap_or(u64::MAX).saturating_sub(now().boot_ms).min(60_000))
    }

    fn tick(&mut self) {
        let now = now();
        let due = |e: &Entry| e.state.wake_ms.is_some_and(|w| w <= now.boot_ms);
        let uids: Vec<String> = self.pods.iter().filter(|(_, e)| due(e)).map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.step(&uid, Event::Tick);
        }
        let known = self.pods.values().filter(|e| e.state.stop.is_none()).count();
        for uid in self.absent.ready(known, now.boot_ms) {
            if let Some(entry) = self.pods.get(&uid) {
                tokio::spawn(feed::confirm(self.shared.clone(), entry.state.pod.clone()));
            }
        }
        if now.boot_ms >= self.refreshed_ms + REFRESH_MS {
            self.refreshed_ms = now.boot_ms;
            self.refresh_all();
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Pod { uid, event } => self.step(&uid, event),
            Message::Seen { uid, seen } if self.pods.contains_key(&uid) => self.step(&uid, Event::Observed(seen)),
            Message::Seen { uid, seen } => {
                tokio::spawn(orphans::consider(self.shared.clone(), uid, seen));
            }
            Message::Desired(pod) => {
                self.absent.back(pod.uid());
                self.desired(pod);
            }
            Message::Missing { uid } => self.missing(&uid),
            Message::Listed { uids } => {
                let lost: Vec<String> = self.pods.keys().filter(|uid| !uids.contains(*uid)).cloned().collect();
                lost.iter().for_each(|uid| self.missing(uid));
            }
            Message::Confirmed { uid, gone: true } => self.step(&uid, Event::Vanished),
            Message::Confirmed { uid, gone: false } => self.absent.back(&uid),
            Message::ObjectChanged { ns } => self.refresh(|pod| pod.metadata.namespace == ns),
        }
    }

    fn missing(&mut self, uid: &str) {
        let Some(entry) = self.pods.get(uid) else { return };
        match &entry.state.stop {
            // Our own confirmation made it go, or will have to: not a surprise.
            Some(stop) if stop.why == pod::Why::Deleted => {
                tokio::spawn(feed::confirm(self.shared.clone(), entry.state.pod.clone()));
            }
            Some(stop) if stop.why == pod::Why::Vanished => {}
            _ => self.absent.missing(uid, now().boot_ms),
        }
    }

    fn desired(&mut self, pod: Arc<Pod>) {
        let uid = pod.uid().to_owned();
        let entry = self.pods.entry(uid.clone()).or_insert_with(|| {
            let state = State::new(pod.clone(), self.facts.clone());
            let place = Arc::new(Place::new(self.shared.config.pod_dir(&uid)));
            Entry { state, place }
        });
        // What was told last, which the API's copy may be behind.
        let told = entry.state.reported.clone();
        self.save(&pod, &told);
        self.step(&uid, Event::Desired(pod));
    }

    /// The checkpoint holds the status too: after a restart a ready container stays ready.
    fn save(&self, pod: &Arc<Pod>, status: &crate::api::PodStatus) {
        let mut pod = Pod::clone(pod);
        pod.status = status.clone();
        if let Err(e) = self.shared.checkpoints.save_pod(&pod) {
            tracing::error!(pod = %pod.label(), error = %e, "the pod's checkpoint could not be written");
        }
    }

    fn step(&mut self, uid: &str, event: Event) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let effects = pod::step(&mut entry.state, now(), event);
        self.shared.views.update(&entry.state);
        for effect in effects {
            self.perform(uid, effect);
        }
    }

    fn perform(&mut self, uid: &str, effect: Effect) {
        let Some(entry) = self.pods.get(uid) else { return };
        let pod = entry.state.pod.clone();
        match effect {
            Effect::Status(status) => {
                self.save(&pod, &status);
                self.shared.reporter.report(pod, &status);
            }
            Effect::Forget => {
                self.pods.remove(uid);
                self.absent.back(uid);
                self.shared.views.remove(uid);
                effects::forget(&self.shared, &pod);
                self.weigh_classes();
            }
            effect => {
                if matches!(effect, Effect::Prepare | Effect::TearDown) {
                    self.weigh_classes();
                }
                effects::spawn(&self.shared, entry, effect);
            }
        }
    }

    /// Tells the kernel how much each class weighs now. A pod that has ended weighs nothing.
    fn weigh_classes(&self) {
        let states = self.pods.values().map(|e| &e.state);
        let specs = states.filter(|s| !s.reported.is_final()).map(|s| &s.pod.spec);
        let root = &self.shared.config.cgroup_root;
        if let Err(error) = cgroup::weigh_classes(self.shared.cgroups.as_ref(), root, specs) {
            tracing::warn!(%error, "the classes of pods keep the weights they had");
        }
    }

    fn refresh_all(&mut self) {
        self.refresh(|_| true);
        let (mut maps, mut secrets, mut uids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for entry in self.pods.values() {
            let pod = &entry.state.pod;
            let ns = &pod.metadata.namespace;
            let (m, s) = crate::volumes::references(pod);
            maps.extend(m.into_iter().map(|name| (ns.clone(), name)));
            let pull = pod.spec.image_pull_secrets.iter().map(|r| r.name.clone());
            secrets.extend(s.into_iter().chain(pull).map(|name| (ns.clone(), name)));
            uids.insert(pod.uid().to_owned());
        }
        self.shared.objects.retain(&maps, &secrets, &uids);
    }

    /// Brings the volumes of running pods up to date.
    fn refresh(&mut self, which: impl Fn(&Pod) -> bool) {
        for entry in self.pods.values() {
            let ready = entry.state.prepared == pod::Progress::Done && entry.state.stop.is_none();
            if ready && which(&entry.state.pod) {
                effects::refresh(&self.shared, entry);
            }
        }
    }
}

/// The same source of objects, as the volumes see it.
pub fn as_objects(shared: &Shared) -> &dyn Objects {
    shared.objects.as_ref()
}
