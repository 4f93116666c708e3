//! The members, their disks and their network; how a run begins, ends and is judged. After the faults it heals, and must
//! come to rest: safety and liveness are two phases.

use super::clients::{self, Client};
use super::disk::SimDisk;
use super::network::Network;
use super::place::{Papers, Place};
use super::{CONTEXT, Context, Snapshots, dice, faults, rest, with};
use crate::api::StoreError;
use crate::disk::DiskRef;
use crate::group::{Attic, Ground, Group, GroupConfig};
use crate::mvcc::Warm;
use crate::plant::Plant;
use crate::wal::WalConfig;
use gantry_history::{HashSample, History, Violation};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a run does harm.
const HARM: Duration = Duration::from_secs(15);
/// Those who begin the group.
const FOUNDERS: RangeInclusive<u64> = 1..=3;
const CLIENTS: usize = 4;
const WATCHERS: usize = 2;

/// What a run found that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    History(Violation),
    /// A member does not start from what is on its disk.
    Refused {
        member: u64,
        error: String,
    },
    Panicked(String),
    /// A member cannot read its own history although its disk is well.
    Unreadable {
        member: u64,
        error: String,
    },
    /// It healed, and yet the members do not agree on one state.
    NoRest(String),
    /// Leases, by member, that nobody keeps alive do not run out.
    LeasesStay(Vec<usize>),
    /// A new member got the number of one that was there before.
    NumberTwice(u64),
    /// A member with a full disk does not do what it should.
    FullDisk {
        member: u64,
        what: String,
    },
}

/// A run without findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    /// A fingerprint of all that happened.
    pub trace: u64,
    pub operations: usize,
    pub revision: u64,
    pub unknown_done: usize,
    pub snapshots: Snapshots,
    pub full_disks: usize,
    /// How often keys went because their lease ran out.
    pub expired: usize,
    /// How many members were added.
    pub members: usize,
    /// How often a member lost its directory.
    pub lost: usize,
    /// How many superseded values went to the log.
    pub put_away: u64,
}

impl Calm {
    /// Takes another run's counts to these.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.revision += other.revision;
        self.unknown_done += other.unknown_done;
        self.snapshots.opened += other.snapshots.opened;
        self.snapshots.installed += other.snapshots.installed;
        self.full_disks += other.full_disks;
        self.expired += other.expired;
        self.members += other.members;
        self.lost += other.lost;
        self.put_away += other.put_away;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process ends; the machine goes on.
    Process,
    Power,
}

struct Member {
    /// It was added to a group that existed.
    joins: bool,
    disk: SimDisk,
    papers: Papers,
    /// Its directory is lost and nothing else may take its place: it is not started any more.
    refused: bool,
    incarnation: u64,
    running: Option<(Group, CancellationToken)>,
    stall_ms: Arc<AtomicU64>,
}

impl Member {
    fn new(id: u64, joins: bool) -> Self {
        Self {
            joins,
            disk: SimDisk::default(),
            papers: Papers::new(id, joins),
            refused: false,
            incarnation: 0,
            running: None,
            stall_ms: Arc::default(),
        }
    }
}

pub struct World {
    /// Of a log segment: small, so that a run sees many and reads entries back from the disk. In some runs smaller still, so that
    /// segments go while what was in them is asked for.
    segment_bytes: u64,
    pub network: Network,
    pub history: Mutex<History>,
    /// Those that belong to the group, or may.
    members: Mutex<BTreeMap<u64, Member>>,
    /// Every number that was ever given.
    numbers: Mutex<BTreeSet<u64>>,
    pub hashes: Mutex<Vec<HashSample>>,
    found: Mutex<Option<Finding>>,
    over: AtomicBool,
}

/// One run from one seed.
pub fn run(seed: u64, plant: Option<Plant>) -> Result<Calm, Finding> {
    let segment_bytes = if seed.is_multiple_of(2) { 8 << 10 } else { 4 << 10 };
    let (result, context) = stage(seed, plant, async { World::begun(segment_bytes).await.live().await });
    if let Some(panic) = context.panics.into_iter().next() {
        return Err(Finding::Panicked(panic));
    }
    result.map(|calm| Calm {
        trace: context.trace,
        snapshots: context.snapshots,
        full_disks: context.full_disks,
        lost: context.lost,
        ..calm
    })
}

/// Lets a scene run under a virtual clock and the dice of `seed`.
pub fn stage<T>(seed: u64, plant: Option<Plant>, scene: impl Future<Output = T>) -> (T, Context) {
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the machine");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let started = tokio::time::Instant::now();
            let (dice, snapshots) = (dice::mix(seed), Snapshots::default());
            let (panics, leased) = (Vec::new(), BTreeMap::new());
            let context = Context {
                dice,
                plant,
                started,
                trace: 0,
                moments: 0,
                panics,
                snapshots,
                leased,
                full_disks: 0,
                lost: 0,
            };
            CONTEXT.with(|slot| *slot.borrow_mut() = Some(context));
            scene.await
        })
    }));
    drop(runtime);
    let context = CONTEXT.with(|slot| slot.borrow_mut().take()).expect("it was set above");
    match result {
        Ok(result) => (result, context),
        Err(panic) => {
            eprintln!("seed {seed}: {}", context.panics.join("\n"));
            std::panic::resume_unwind(panic)
        }
    }
}

/// A task's panic would go unseen: whoever waits for the task only hears that it ended.
fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let noted = CONTEXT.with(|context| match context.try_borrow_mut().as_deref_mut() {
                Ok(Some(context)) => {
                    context.panics.push(panic.to_string());
                    true
                }
                _ => false,
            });
            if !noted {
                before(panic);
            }
        }));
    });
}

impl World {
    fn new(segment_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            segment_bytes,
            network: Network::default(),
            history: Mutex::default(),
            members: Mutex::new(FOUNDERS.map(|id| (id, Member::new(id, false))).collect()),
            numbers: Mutex::new(FOUNDERS.collect()),
            hashes: Mutex::default(),
            found: Mutex::default(),
            over: AtomicBool::new(false),
        })
    }

    /// A world whose founders run.
    pub async fn begun(segment_bytes: u64) -> Arc<Self> {
        let world = Self::new(segment_bytes);
        for member in FOUNDERS {
            world.start(member).await;
        }
        world
    }

    /// Lets the next write to a member's disk fail, and all after it.
    pub fn break_disk(&self, id: u64) {
        if let Some(member) = self.members.lock().get(&id) {
            member.disk.die_in(1);
        }
    }

    async fn live(self: Arc<Self>) -> Result<Calm, Finding> {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..CLIENTS {
            tasks.spawn(Client::new(self.clone(), number).run());
        }
        for _ in 0..WATCHERS {
            tasks.spawn(clients::watch(self.clone()));
        }
        let end = self.clone();
        tasks.spawn(async move {
            tokio::time::sleep(HARM).await;
            end.over.store(true, Ordering::Relaxed);
        });
        faults::run(&self).await;
        while tasks.join_next().await.is_some() {}
        self.found()?;
        rest::judge(&self).await
    }

    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.found.lock().is_some() || with(|c| !c.panics.is_empty()) == Some(true)
    }

    pub fn group(&self, member: u64) -> Option<(Group, CancellationToken)> {
        self.members.lock().get(&member)?.running.clone()
    }

    /// The numbers of all members, running or not.
    pub fn ids(&self) -> Vec<u64> {
        self.members.lock().keys().copied().collect()
    }

    pub fn some_member(&self) -> u64 {
        let ids = self.ids();
        ids[dice::below(ids.len() as u64) as usize]
    }

    pub fn others(&self, member: u64) -> Vec<u64> {
        self.ids().into_iter().filter(|other| *other != member).collect()
    }

    pub fn groups(&self) -> Vec<Group> {
        self.members.lock().values().filter_map(|member| Some(member.running.as_ref()?.0.clone())).collect()
    }

    pub fn leader(&self) -> Option<u64> {
        self.ids().into_iter().find(|member| self.group(*member).is_some_and(|(group, _)| group.is_leader()))
    }

    /// A member that was added begins with nothing.
    pub async fn admit(&self, id: u64) {
        if !self.numbers.lock().insert(id) && !self.members.lock().contains_key(&id) {
            self.find(Finding::NumberTwice(id));
        }
        self.members.lock().entry(id).or_insert_with(|| Member::new(id, true));
        self.start(id).await;
    }

    /// A member that does not belong to the group any more goes for good.
    pub fn dismiss(&self, id: u64) {
        self.kill(id, Death::Process);
        self.members.lock().remove(&id);
    }

    /// All that a member had is gone for good; it is not running then.
    pub fn lose(&self, id: u64) {
        self.kill(id, Death::Power);
        if let Some(member) = self.members.lock().get_mut(&id) {
            member.disk = SimDisk::default();
            member.papers = Papers::new(id, member.joins);
            with(|context| context.lost += 1);
        }
    }

    /// A member must not take part with what it has, so that nobody starts it again.
    pub fn refuse(&self, id: u64) {
        self.kill(id, Death::Process);
        if let Some(member) = self.members.lock().get_mut(&id) {
            member.refused = true;
        }
    }

    pub fn is_refused(&self, id: u64) -> bool {
        self.members.lock().get(&id).is_some_and(|member| member.refused)
    }

    /// By those who run.
    pub fn put_away(&self) -> u64 {
        self.groups().iter().map(|group| group.handle().counts.put_away.load(Ordering::Relaxed)).sum()
    }

    pub fn added(&self) -> usize {
        self.numbers.lock().len() - FOUNDERS.count()
    }

    pub fn found(&self) -> Result<(), Finding> {
        self.found.lock().take().map_or(Ok(()), Err)
    }

    /// Ends the run with what was found, if it is the first.
    pub fn find(&self, finding: Finding) {
        self.found.lock().get_or_insert(finding);
    }

    /// Ends the run if a member that is well cannot read its history.
    pub fn hear(&self, member: u64, error: &StoreError) {
        let died = || self.members.lock().get(&member).is_none_or(|member| member.disk.died());
        if let StoreError::Unreadable(error) = error
            && !died()
        {
            self.find(Finding::Unreadable { member, error: error.clone() });
        }
    }

    /// The newest revision that any member has.
    pub fn newest(&self) -> u64 {
        self.groups().iter().map(|group| group.applied_revision().0).max().unwrap_or(1)
    }

    pub fn stall_ms(&self, member: u64) -> Arc<AtomicU64> {
        self.members.lock().get(&member).map(|member| member.stall_ms.clone()).unwrap_or_default()
    }

    /// Whether a member's disk has no space left from now on.
    pub fn fill(&self, member: u64, full: bool) {
        if let Some(member) = self.members.lock().get(&member) {
            member.disk.space.used_up.store(full, Ordering::SeqCst);
        }
    }

    pub async fn start(&self, id: u64) {
        let (config, ground, disk) = {
            let mut members = self.members.lock();
            let known: Vec<u64> = if members.get(&id).is_some_and(|member| member.joins) {
                members.keys().copied().collect()
            } else {
                FOUNDERS.collect()
            };
            let may = |member: &&mut Member| member.running.is_none() && !member.refused;
            let Some(member) = members.get_mut(&id).filter(may) else { return };
            member.incarnation += 1;
            let incarnation = member.incarnation;
            self.network.start(id, incarnation);
            let place = Place {
                papers: member.papers.clone(),
                network: self.network.clone(),
                member: id,
                incarnation,
                stall_ms: member.stall_ms.clone(),
            };
            let disk: DiskRef = member.disk.mount();
            let wal = WalConfig {
                segment_bytes: self.segment_bytes,
                zero_ahead_bytes: 2 << 10,
                cache_bytes: 2 << 10,
                ..WalConfig::default()
            };
            let members = known.into_iter().map(|id| (id, address(id))).collect();
            // Nothing stays warm: what readers are told of the past comes from the log.
            let warm = Warm { bytes: 0, least: 1 };
            let attic = Attic { warm, farthest: 16, every: Duration::from_millis(100) };
            let config = GroupConfig {
                member: id,
                members,
                join: member.joins,
                log_keep: 5,
                attic,
                space: member.disk.space.clone(),
                ..GroupConfig::single("sim", "/store")
            };
            (config, Ground { disk, wal, simulation: Some(place) }, member.disk.clone())
        };
        match Group::open_on(config, ground).await {
            Ok(group) => {
                with(|context| context.snapshots.opened += usize::from(group.has_snapshot()));
                if let Some(member) = self.members.lock().get_mut(&id) {
                    member.running = Some((group, CancellationToken::new()));
                }
            }
            Err(_) if disk.died() => self.kill(id, Death::Process),
            Err(error) => {
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    text = format!("{text}: {cause}");
                    source = cause.source();
                }
                self.find(Finding::Refused { member: id, error: text });
            }
        }
    }

    pub fn kill(&self, id: u64, death: Death) {
        let mut members = self.members.lock();
        let Some(member) = members.get_mut(&id) else { return };
        self.network.stop(id);
        member.disk.unmount();
        if death == Death::Power {
            member.disk.lose_power();
        }
        if let Some((group, alive)) = member.running.take() {
            alive.cancel();
            // What is left of it can neither write nor send; it only has to end.
            tokio::spawn(async move { group.shutdown().await });
        }
    }

    /// Lets a member die in the middle of one of its next writes.
    pub async fn die_soon(&self, id: u64, death: Death) {
        let Some(disk) = self.members.lock().get(&id).map(|member| member.disk.clone()) else { return };
        disk.die_in(dice::between(1, 40));
        for _ in 0..40 {
            if disk.died() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.kill(id, death);
    }

    /// Writes down what the members' states hash to.
    pub fn sample(&self) {
        for member in self.ids() {
            let Some((group, _)) = self.group(member) else { continue };
            let view = group.view();
            let newest = view.revision().0;
            let revisions = (newest.saturating_sub(20).max(2)..=newest).filter_map(|revision| {
                view.commit(revision).map(|commit| HashSample { member, revision, hash: commit.hash })
            });
            self.hashes.lock().extend(revisions);
        }
    }
}

/// Where a member is, for whoever does not know the simulated network.
fn address(id: u64) -> String {
    format!("member-{id}:1")
}
