//! Two schedulers, one store, and watches that lag as they like: no machine is ever given more than it has. Then the faults
//! stop, and everything that fits must be placed, after which nothing is written any more.

mod checks;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::super::{Bind, BindOutcome, Effect, Engine, Event, Inline, Work, Workers};
use super::model::{Store, Told, pod};
use crate::schedule::{Decision, Scratch};
use crate::snapshot::{Snapshot, Watch};

const MACHINES: [&str; 3] = ["m0", "m1", "m2"];
/// Members that start together.
const GANG: usize = 3;

/// Proposes for several pods from one snapshot, as threads do.
struct Several;

impl Workers for Several {
    fn width(&self) -> usize {
        3
    }

    fn propose(&self, snapshot: &Snapshot, work: &[Work], scratch: &mut Scratch) -> Vec<Decision> {
        Inline.propose(snapshot, work, scratch)
    }
}

/// One scheduler with its three watches and what is under way to and from the store.
struct Member {
    engine: Engine,
    several: bool,
    pods_at: usize,
    nodes_at: usize,
    allocations_at: usize,
    lendable_at: usize,
    binds: VecDeque<(Vec<Bind>, bool)>,
    answers: VecDeque<Event>,
    /// Pods that it wants ended.
    evictions: VecDeque<String>,
    writes: usize,
    /// How far the pod watch had told when the pods under way were decided.
    decided: BTreeMap<Arc<str>, usize>,
}

#[derive(Clone, Debug)]
enum Step {
    /// So many CPUs; whether of the batch band.
    CreatePod(u8, bool),
    CreateBound(u8, u8),
    /// A member of one of two gangs. The second may end others.
    CreateMember(u8, u8),
    DeletePod(u8),
    /// Which pod, to how many CPUs.
    Resize(u8, u8),
    /// Which pod, to which gang, or none.
    Relabel(u8, u8),
    DeleteNode(u8),
    /// Which machine has, or lends, so many CPUs now.
    SetNode(u8, u8),
    SetLendable(u8, u8),
    /// Which scheduler, which watch.
    Watch(usize, u8),
    Decide(usize, u64),
    /// The store runs the oldest bind; whether its answer gets lost.
    Bind(usize, bool),
    Answer(usize),
    /// The oldest pod that it wants ended ends.
    Evict(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 0..2_usize;
    let step = prop_oneof![
        4 => (1..4_u8, any::<bool>()).prop_map(|(cpu, batch)| Step::CreatePod(cpu, batch)),
        1 => (1..3_u8, 0..3_u8).prop_map(|(cpu, m)| Step::CreateBound(cpu, m)),
        2 => (1..3_u8, 0..2_u8).prop_map(|(cpu, gang)| Step::CreateMember(cpu, gang)),
        1 => any::<u8>().prop_map(Step::DeletePod),
        1 => (any::<u8>(), 1..4_u8).prop_map(|(which, cpu)| Step::Resize(which, cpu)),
        1 => (any::<u8>(), 0..3_u8).prop_map(|(which, gang)| Step::Relabel(which, gang)),
        1 => (0..12_u8).prop_map(|m| if m < 3 { Step::DeleteNode(m) } else { Step::SetNode(m % 3, 4) }),
        1 => (0..3_u8, 2..6_u8).prop_map(|(m, cpu)| Step::SetNode(m, cpu)),
        1 => (0..3_u8, 0..3_u8).prop_map(|(m, cpu)| Step::SetLendable(m, cpu)),
        10 => (who.clone(), 0..5_u8).prop_map(|(w, k)| Step::Watch(w, k)),
        4 => (who.clone(), any::<u64>()).prop_map(|(w, s)| Step::Decide(w, s)),
        4 => (who.clone(), proptest::bool::weighted(0.1)).prop_map(|(w, lost)| Step::Bind(w, lost)),
        4 => who.clone().prop_map(Step::Answer),
        2 => who.prop_map(Step::Evict),
    ];
    proptest::collection::vec(step, 0..150)
}

impl Member {
    fn new(several: bool) -> Self {
        let mut engine = Engine::new("default-scheduler");
        let class = json!({"metadata": {"name": "batch", "labels": {"gantry.dev/band": "batch"}}});
        engine.step(0, Event::Class(Arc::new(serde_json::from_value(class).unwrap())));
        // One of the gangs is given up quickly; the other has a label only.
        let group = json!({"metadata": {"namespace": "ns", "name": "g0"},
            "spec": {"minMember": GANG, "scheduleTimeoutSeconds": 1}});
        engine.step(0, Event::Group(Arc::new(serde_json::from_value(group).unwrap())));
        Member {
            engine,
            several,
            pods_at: 0,
            nodes_at: 0,
            allocations_at: 0,
            lendable_at: 0,
            binds: VecDeque::new(),
            answers: VecDeque::new(),
            evictions: VecDeque::new(),
            writes: 0,
            decided: BTreeMap::new(),
        }
    }

    fn step(&mut self, store: &Store, now_ms: u64, event: Event) {
        let effects = match event {
            Event::Decide { seed, most } if self.several => self.engine.decide(now_ms, seed, most, &Several),
            event => self.engine.step(now_ms, event),
        };
        for effect in effects {
            match effect {
                Effect::Bind { binds, gang } => self.binds.push_back((binds, gang.is_some())),
                Effect::ReadAllocation(node) => {
                    let read = store.read_allocation(&node);
                    self.answers.push_back(read.map_or(Event::AllocationGone(node), Event::Allocation));
                    continue;
                }
                Effect::Evict { victim, .. } => self.evictions.push_back(victim.uid),
                Effect::Scheduled { .. } => continue,
                _ => {}
            }
            self.writes += 1;
        }
        self.engine.validate();
        let (pods_at, deciding) = (self.pods_at, &self.engine.deciding);
        self.decided.retain(|uid, _| deciding.contains_key(uid));
        for uid in deciding.keys() {
            self.decided.entry(uid.clone()).or_insert(pods_at);
        }
    }

    /// One more event of one watch. The pod watch says how far it has come for certain: several pods may share a revision.
    fn watch(&mut self, store: &Store, now_ms: u64, kind: u8) {
        let at = match kind {
            0 => &mut self.pods_at,
            1 => &mut self.nodes_at,
            2 => &mut self.allocations_at,
            3 => &mut self.lendable_at,
            _ => return self.bookmarks(store, now_ms),
        };
        let mut event = None;
        while event.is_none() && *at < store.log.len() {
            event = match (&store.log[*at].1, kind) {
                (Told::Pod(pod), 0) => Some(Event::Pod(pod.clone())),
                (Told::PodGone(name), 0) => Some(Event::PodGone(name.clone())),
                (Told::Node(node), 1) => Some(Event::Node(node.clone())),
                (Told::NodeGone(name), 1) => Some(Event::NodeGone(name.clone())),
                (Told::AllocationGone(name), 2) => Some(Event::AllocationGone(name.clone())),
                (Told::Allocation(allocation), 2) => Some(Event::Allocation(allocation.clone())),
                (Told::Lendable(capacity), 3) => Some(Event::Lendable(capacity.clone())),
                _ => None,
            };
            *at += 1;
        }
        let revision = store.log.get(at.saturating_sub(1)).map_or(0, |(revision, _)| *revision);
        if let Some(event) = event {
            self.step(store, now_ms, event);
            let watch = [Some(Watch::Pods), Some(Watch::Nodes), None, Some(Watch::Capacities)][usize::from(kind)];
            if let Some(watch) = watch {
                self.step(store, now_ms, Event::Reached(watch, revision - 1));
            }
        }
    }

    /// Watches that have nothing more to tell say so.
    fn bookmarks(&mut self, store: &Store, now_ms: u64) {
        let all = [(self.pods_at, Watch::Pods), (self.nodes_at, Watch::Nodes), (self.lendable_at, Watch::Capacities)];
        for (_, watch) in all.into_iter().filter(|(at, _)| *at == store.log.len()) {
            self.step(store, now_ms, Event::Reached(watch, store.revision));
        }
    }

    /// What it thinks of a pod, for who looks for a mistake.
    fn told_of(&self, uid: &str) -> String {
        let engine = &self.engine;
        let slept = engine.queue.sleeping().class_of(uid);
        let slept = slept.map(|s| (s.message.clone(), s.local, s.stale, s.wake_on()));
        format!(
            "{:?} {slept:?} held {:?} current {:?} lanes {:?} news {:?}",
            engine.queue.place(uid),
            engine.nominated,
            engine.snapshot.current(),
            engine.lanes,
            engine.news
        )
    }

    fn is_behind(&self, store: &Store) -> bool {
        [self.pods_at, self.nodes_at, self.allocations_at, self.lendable_at].iter().any(|at| *at < store.log.len())
    }
}

impl Member {
    /// Nothing is under way, and nothing will be for a minute.
    fn is_quiet(&self, store: &Store, now_ms: u64) -> bool {
        let due = self.engine.next_due_ms().is_some_and(|due| due < now_ms + 60_000);
        !self.is_behind(store)
            && !due
            && !self.engine.has_ready()
            && self.binds.is_empty()
            && self.answers.is_empty()
            && self.evictions.is_empty()
    }
}

fn labels(gang: u8) -> BTreeMap<String, String> {
    let labels = [("pod-group", format!("g{gang}")), ("min-member", GANG.to_string())];
    let labels = labels.map(|(key, value)| (format!("gantry.dev/{key}"), value));
    if gang < 2 { BTreeMap::from(labels) } else { BTreeMap::new() }
}

struct World {
    /// Members with a machine that left their gang, by where in the log: a gang that was whole may shrink.
    left: Vec<(usize, String)>,
    store: Store,
    members: [Member; 2],
    now_ms: u64,
    made: u32,
    /// No more faults.
    settles: bool,
}

impl World {
    fn new() -> Self {
        let mut store = Store::default();
        for name in MACHINES {
            store.set_node(name, "4");
        }
        let members = [Member::new(false), Member::new(true)];
        World { left: Vec::new(), store, members, now_ms: 0, made: 0, settles: false }
    }

    fn run(&mut self, step: &Step) {
        self.now_ms += 7;
        match *step {
            Step::CreatePod(cpu, batch) => {
                self.made += 1;
                let class = json!({"priorityClassName": if batch { "batch" } else { "" }});
                self.store.put_pod(&pod(&format!("p{}", self.made), &cpu.to_string(), "", class));
            }
            Step::Resize(which, cpu) => {
                let names: Vec<String> = self.store.pods.keys().cloned().collect();
                if let Some(name) = names.get(usize::from(which) % names.len().max(1)) {
                    self.store.resize(name, cpu);
                }
            }
            Step::SetNode(machine, cpu) => self.store.set_node(MACHINES[usize::from(machine)], &cpu.to_string()),
            Step::SetLendable(machine, cpu) => self.store.set_lendable(MACHINES[usize::from(machine)], cpu),
            Step::CreateBound(cpu, machine) => {
                self.made += 1;
                let machine = MACHINES[usize::from(machine)];
                if !self.store.has_node(machine) {
                    return;
                }
                self.store.create_bound(&format!("p{}", self.made), &cpu.to_string(), machine);
            }
            Step::CreateMember(cpu, gang) => {
                self.made += 1;
                let spec = json!({"priority": 5 * gang});
                let mut member = (*pod(&format!("p{}", self.made), &cpu.to_string(), "", spec)).clone();
                member.metadata.labels = labels(gang);
                self.store.put_pod(&member);
            }
            Step::DeletePod(which) => {
                let names: Vec<String> = self.store.pods.keys().cloned().collect();
                if let Some(name) = names.get(usize::from(which) % names.len().max(1)) {
                    self.leaves(|pod| pod.metadata.name == *name);
                    self.store.delete_pod(name);
                }
            }
            Step::Relabel(which, gang) => {
                let names: Vec<String> = self.store.pods.keys().cloned().collect();
                if let Some(name) = names.get(usize::from(which) % names.len().max(1)) {
                    self.leaves(|pod| pod.metadata.name == *name);
                    self.store.relabel(name, labels(gang));
                }
            }
            Step::DeleteNode(machine) => {
                let machine = MACHINES[usize::from(machine)];
                self.leaves(|pod| pod.spec.node_name == machine);
                self.store.delete_node(machine);
            }
            Step::Watch(who, kind) => self.members[who].watch(&self.store, self.now_ms, kind),
            Step::Decide(who, seed) => {
                self.members[who].step(&self.store, self.now_ms, Event::Decide { seed, most: 4 });
            }
            Step::Bind(who, lost) => self.bind(who, lost),
            Step::Evict(who) => self.evict(who),
            Step::Answer(who) => {
                if let Some(event) = self.members[who].answers.pop_front() {
                    self.members[who].step(&self.store, self.now_ms, event);
                }
            }
        }
    }

    fn bind(&mut self, who: usize, lost: bool) {
        let Some((binds, is_gang)) = self.members[who].binds.pop_front() else { return };
        let outcomes = self.store.bind(&binds, is_gang);
        let mut bound = Vec::new();
        for (bind, outcome) in binds.iter().zip(outcomes) {
            if matches!(outcome, BindOutcome::Bound(_)) {
                bound.push(bind.clone());
                let (reserved, lent) = self.store.free_m(&bind.node);
                let is_batch = bind.pod.class == "batch";
                assert!(
                    lent >= 0 && (is_batch || reserved >= 0),
                    "{} is overcommitted by {}",
                    bind.node,
                    bind.pod.name
                );
            }
            let outcome = if lost { BindOutcome::Unknown } else { outcome };
            self.members[who].answers.push_back(Event::Bind { uid: bind.pod.uid.clone(), outcome });
        }
        self.check_gangs(who, &bound);
    }

    /// No more faults: everything is delivered until nothing moves.
    fn settle(&mut self) {
        self.settles = true;
        for round in 0..2_000 {
            if self.members.iter().all(|member| member.is_quiet(&self.store, self.now_ms)) {
                return;
            }
            self.now_ms += 1_000;
            for who in 0..2 {
                while self.members[who].is_behind(&self.store) {
                    for kind in 0..4 {
                        self.members[who].watch(&self.store, self.now_ms, kind);
                    }
                }
                if round % 7 == 0 {
                    self.members[who].watch(&self.store, self.now_ms, 4);
                }
                self.run(&Step::Decide(who, round));
                self.run(&Step::Bind(who, false));
                self.run(&Step::Answer(who));
                self.run(&Step::Evict(who));
            }
        }
        panic!("it never comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_machine_is_ever_exceeded_and_what_fits_is_placed(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.settle();
        if let Some(forgotten) = world.forgotten() {
            let uids = world.store.unbound();
            let told = |member: &Member| uids.iter().map(|pod| member.told_of(&pod.metadata.uid.0)).collect::<Vec<_>>();
            prop_assert!(false, "{forgotten}: {:#?}", world.members.each_ref().map(told));
        }
        // Everybody is looked at again, which may keep a machine for somebody, and then bring explanations up to date.
        for _ in 0..3 {
            world.now_ms += 1_000_000;
            world.settle();
        }
        // Settled: the same news again and all the time in the world lead to no write.
        let writes = [world.members[0].writes, world.members[1].writes];
        world.now_ms += 1_000_000;
        for who in 0..2 {
            for pod in world.store.pods.values().cloned().collect::<Vec<_>>() {
                world.members[who].step(&world.store, world.now_ms, Event::Pod(pod));
            }
            world.members[who].step(&world.store, world.now_ms, Event::Decide { seed: 1, most: 1_000 });
        }
        prop_assert_eq!([world.members[0].writes, world.members[1].writes], writes);
    }
}
