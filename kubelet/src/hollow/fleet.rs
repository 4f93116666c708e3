//! All hollow machines and their pods as one state machine: `step(&mut self, now, Event) -> Vec<Effect>`. Decides which write comes
//! next, how many are in flight, and what waits while reports are paused. It does nothing itself and reads no clock.

mod figures;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::meta::{Object, Uid};
use gantry_rehearsal::{FleetProfile, Machine as Place, fleet};

use super::lane::Lane;
use super::machine::{self, Machine, Renewal, Reported};
use super::process::Host;
use super::projection::SeenNode;
use super::timers::Timers;
use super::{HollowConfig, identity};
use crate::api::{Pod, PodStatus};
use crate::pod::{Facts, Level, Now};
pub use figures::Figures;
use pods::Slot;

/// Renewals in flight; machines do not wait for each other in a real fleet, but they share a server.
const LEASE_WRITES: usize = 64;
/// Registrations and statuses of Nodes in flight.
const NODE_WRITES: usize = 32;

#[derive(Debug)]
pub enum Event {
    Tick,
    /// A watch shows a pod that is bound to some machine.
    Pod(Arc<Pod>),
    PodGone(Uid),
    /// A whole list of the pods of one machine, or of all: what it lacks is gone.
    Listed {
        machine: Option<u32>,
        uids: BTreeSet<Uid>,
    },
    /// A watch shows a Node.
    Node(Arc<SeenNode>),
    NodeGone(Arc<SeenNode>),
    Registered {
        machine: u32,
        /// The Node's uid, when it is there.
        uid: Option<Uid>,
    },
    Renewed {
        machine: u32,
        outcome: Renewal,
    },
    NodeReported {
        machine: u32,
        outcome: Reported,
    },
    StatusWritten {
        uid: Uid,
        outcome: Written,
    },
    Deleted {
        uid: Uid,
        result: Result<(), String>,
    },
    Pause(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// Worth another try, a little later.
    Again,
    /// The server does not take it; nor would it the same again.
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Register { machine: u32 },
    Renew { machine: u32, owner: Uid, create: bool },
    ReportNode { machine: u32 },
    WriteStatus { pod: Arc<Pod>, status: Box<PodStatus> },
    Delete { pod: Arc<Pod> },
    Tell { machine: u32, pod: Arc<Pod>, level: Level, reason: &'static str, message: String, container: Option<String> },
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Machine(u32),
    Pod(Uid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeWrite {
    Register,
    Report,
}

/// One machine: its own part, and what its pods share.
#[derive(Debug)]
struct Entry {
    place: Place,
    machine: Machine,
    uid: Uid,
    pod_cidr: Option<String>,
    facts: Arc<Facts>,
    /// Addresses given to pods so far.
    addresses: u32,
}

pub struct Fleet {
    profile: Arc<FleetProfile>,
    seed: u64,
    first: u32,
    batch_ms: u64,
    paused: bool,
    machines: Vec<Entry>,
    /// Per class: what is on its machines' disks.
    images: Vec<Arc<Vec<(String, u64)>>>,
    pods: BTreeMap<Uid, Slot>,
    timers: Timers<Key>,
    leases: Lane<u32>,
    node_writes: Lane<(NodeWrite, u32)>,
    pod_writes: Lane<Uid>,
    figures: Figures,
}

impl Fleet {
    pub fn new(config: &HollowConfig) -> Self {
        let profile = Arc::new(config.profile.clone());
        let count = config.machines;
        let end = config.first.saturating_add(count);
        let places = fleet::machines(&profile, config.seed, end).skip(config.first as usize);
        let entry = |(nth, place): (u32, Place)| Entry {
            place,
            machine: Machine::new(u32::try_from(u64::from(nth) * 1_000_000 / u64::from(count)).unwrap_or(0)),
            uid: Uid::default(),
            pod_cidr: None,
            facts: Arc::new(Facts {
                runtime: "hollow".into(),
                host_ips: vec![identity::machine_ip(place.number).to_string()],
            }),
            addresses: 0,
        };
        let images = profile
            .classes
            .iter()
            .map(|class| Arc::new(class.images.iter().map(|image| (image.name.clone(), image.size_bytes)).collect()));
        let mut fleet = Self {
            seed: config.seed,
            first: config.first,
            batch_ms: config.batch_ms,
            paused: false,
            machines: (0..count).zip(places).map(entry).collect(),
            images: images.collect(),
            pods: BTreeMap::new(),
            timers: Timers::default(),
            leases: Lane::new(LEASE_WRITES),
            node_writes: Lane::new(NODE_WRITES),
            pod_writes: Lane::new(config.pod_writes),
            figures: Figures::default(),
            profile,
        };
        (0..count).for_each(|machine| fleet.timers.set(&Key::Machine(machine), Some(0)));
        fleet
    }

    pub fn profile(&self) -> &Arc<FleetProfile> {
        &self.profile
    }

    /// A machine's class and place, by its position here.
    pub fn place(&self, machine: u32) -> Place {
        self.machines[machine as usize].place
    }

    /// When the fleet wants a `Tick`.
    pub fn wake_ms(&self) -> Option<u64> {
        let lanes = [self.leases.next_ms(), self.node_writes.next_ms(), self.pod_writes.next_ms()];
        lanes.into_iter().flatten().chain(self.timers.next_ms()).min()
    }

    pub fn figures(&self) -> Figures {
        let registered = self.machines.iter().filter(|entry| entry.machine.is_registered()).count();
        let waiting = self.pod_writes.len();
        let mut figures = Figures { machines: self.machines.len(), registered, waiting, ..self.figures };
        self.pods.values().for_each(|slot| figures.count(slot.process.status()));
        figures
    }

    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut out = vec![];
        match event {
            Event::Tick => {}
            Event::Pod(pod) => self.pod(now, pod, &mut out),
            Event::PodGone(uid) => self.gone(now, &uid, &mut out),
            Event::Listed { machine, uids } => {
                let here = |slot: &Slot| machine.is_none_or(|machine| slot.machine == machine);
                let lost = self.pods.iter().filter(|(uid, slot)| here(slot) && !uids.contains(*uid));
                let lost: Vec<Uid> = lost.map(|(uid, _)| uid.clone()).collect();
                lost.iter().for_each(|uid| self.gone(now, uid, &mut out));
            }
            Event::Node(node) => self.node(now, &node, false),
            Event::NodeGone(node) => self.node(now, &node, true),
            Event::Registered { machine, uid } => {
                self.node_writes.ended();
                let event = if uid.is_some() { machine::Event::Registered } else { machine::Event::RegisterFailed };
                self.machines[machine as usize].uid = uid.unwrap_or_default();
                self.machine(now, machine, event);
            }
            Event::Renewed { machine, outcome } => {
                self.leases.ended();
                self.figures.renewals += u64::from(outcome == Renewal::Done);
                self.figures.failures += u64::from(outcome == Renewal::Failed);
                self.machine(now, machine, machine::Event::Renewed(outcome));
            }
            Event::NodeReported { machine, outcome } => {
                self.node_writes.ended();
                self.figures.failures += u64::from(outcome == Reported::Failed);
                // A deletion that no watch told of, as when everything was read again, is learnt here. Where a watch did tell,
                // the machine has registered since, and to do so once more only takes up what is there.
                let event = match outcome {
                    Reported::Gone => machine::Event::Gone,
                    outcome => machine::Event::Reported { ok: outcome == Reported::Done },
                };
                self.machine(now, machine, event);
            }
            Event::StatusWritten { uid, outcome } => self.written(now, uid, outcome),
            Event::Deleted { uid, result } => self.deleted(now, uid, result, &mut out),
            Event::Pause(paused) => self.pause(now, paused),
        }
        self.tick(now, &mut out);
        self.begin(now, &mut out);
        out
    }

    /// The position of the machine with this name, if it is one of ours.
    pub fn position(&self, name: &str) -> Option<u32> {
        let number = name.strip_prefix(self.profile.name.as_str())?.strip_prefix('-')?.parse::<u32>().ok()?;
        let position = number.checked_sub(self.first)?;
        let entry = self.machines.get(position as usize)?;
        (entry.place.name(&self.profile) == name).then_some(position)
    }

    fn node(&mut self, now: Now, node: &SeenNode, gone: bool) {
        let meta = node.meta();
        let Some(at) = self.position(&meta.name) else { return };
        let entry = &mut self.machines[at as usize];
        // One that was deleted and is still on its way to us says nothing.
        if entry.uid == meta.uid {
            entry.pod_cidr.clone_from(&node.pod_cidr);
            let event = if gone { machine::Event::Gone } else { machine::Event::Seen { ready: node.ready } };
            self.machine(now, at, event);
        }
    }

    fn machine(&mut self, now: Now, at: u32, event: machine::Event) {
        let entry = &mut self.machines[at as usize];
        for effect in machine::step(&mut entry.machine, now.boot_ms, event) {
            match effect {
                machine::Effect::Register => self.node_writes.push((NodeWrite::Register, at), now.boot_ms),
                machine::Effect::Report => self.node_writes.push((NodeWrite::Report, at), now.boot_ms),
                machine::Effect::Renew { .. } => self.leases.push(at, now.boot_ms),
            }
        }
        self.timers.set(&Key::Machine(at), self.machines[at as usize].machine.wake_ms());
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(key) = self.timers.due(now.boot_ms) {
            match key {
                Key::Machine(at) => self.machine(now, at, machine::Event::Tick),
                Key::Pod(uid) => self.advance(now, &uid, crate::pod::Event::Tick, out),
            }
        }
    }

    /// Begins every write whose turn it is.
    fn begin(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(machine) = self.leases.next(now.boot_ms) {
            let entry = &self.machines[machine as usize];
            out.push(Effect::Renew { machine, owner: entry.uid.clone(), create: entry.machine.lacks_lease() });
        }
        while let Some((write, machine)) = self.node_writes.next(now.boot_ms) {
            out.push(match write {
                NodeWrite::Register => Effect::Register { machine },
                NodeWrite::Report => Effect::ReportNode { machine },
            });
        }
        while let Some(uid) = self.pod_writes.next(now.boot_ms) {
            match self.next_write(&uid) {
                Some(effect) => out.push(effect),
                None => self.pod_writes.ended(),
            }
        }
    }

    /// What a pod's machine shares with all its pods.
    fn host(&self, at: u32) -> Host {
        let entry = &self.machines[at as usize];
        Host { facts: entry.facts.clone(), images: self.images[usize::from(entry.place.class)].clone() }
    }
}
