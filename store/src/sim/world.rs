//! Three members, their disks and their network; how a run begins, ends and is judged. After the faults it heals, and must
//! come to rest: safety and liveness are two phases.

use super::clients::{self, Client};
use super::disk::SimDisk;
use super::network::Network;
use super::place::Place;
use super::{CONTEXT, Context, Snapshots, dice, faults, with};
use crate::api::Revision;
use crate::disk::DiskRef;
use crate::group::{Ground, Group, GroupConfig};
use crate::plant::Plant;
use crate::wal::WalConfig;
use gantry_history::{HashSample, History, Request, Span, Violation, check, check_hashes};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a run does harm.
const HARM: Duration = Duration::from_secs(15);
/// How long it may take to come to rest after that.
const REST: Duration = Duration::from_secs(60);
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
    /// It healed, and yet the members do not agree on one state.
    NoRest(String),
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process ends; the machine goes on.
    Process,
    Power,
}

struct Member {
    disk: SimDisk,
    incarnation: u64,
    running: Option<(Group, CancellationToken)>,
    stall_ms: Arc<AtomicU64>,
}

pub struct World {
    pub network: Network,
    pub history: Mutex<History>,
    members: BTreeMap<u64, Mutex<Member>>,
    hashes: Mutex<Vec<HashSample>>,
    refused: Mutex<Option<Finding>>,
    over: AtomicBool,
}

/// One run from one seed.
pub fn run(seed: u64, plant: Option<Plant>) -> Result<Calm, Finding> {
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the machine");
    let result = runtime.block_on(async {
        let started = tokio::time::Instant::now();
        let (dice, snapshots) = (dice::mix(seed), Snapshots::default());
        let context = Context { dice, plant, started, trace: 0, moments: 0, panics: Vec::new(), snapshots };
        CONTEXT.with(|slot| *slot.borrow_mut() = Some(context));
        World::new().live().await
    });
    drop(runtime);
    let context = CONTEXT.with(|slot| slot.borrow_mut().take()).expect("it was set above");
    if let Some(panic) = context.panics.into_iter().next() {
        return Err(Finding::Panicked(panic));
    }
    result.map(|calm| Calm { trace: context.trace, snapshots: context.snapshots, ..calm })
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
    fn new() -> Arc<Self> {
        let member = |id| {
            let (disk, stall_ms) = (SimDisk::default(), Arc::default());
            (id, Mutex::new(Member { disk, incarnation: 0, running: None, stall_ms }))
        };
        Arc::new(Self {
            network: Network::default(),
            history: Mutex::default(),
            members: (1..=3).map(member).collect(),
            hashes: Mutex::default(),
            refused: Mutex::default(),
            over: AtomicBool::new(false),
        })
    }

    async fn live(self: Arc<Self>) -> Result<Calm, Finding> {
        for member in 1..=3 {
            self.start(member).await;
        }
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
        if let Some(refused) = self.refused.lock().take() {
            return Err(refused);
        }
        self.judge().await
    }

    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
            || self.refused.lock().is_some()
            || with(|c| !c.panics.is_empty()) == Some(true)
    }

    pub fn group(&self, member: u64) -> Option<(Group, CancellationToken)> {
        self.members[&member].lock().running.clone()
    }

    fn groups(&self) -> Vec<Group> {
        (1..=3).filter_map(|member| self.group(member)).map(|(group, _)| group).collect()
    }

    pub fn leader(&self) -> Option<u64> {
        (1..=3).find(|member| self.group(*member).is_some_and(|(group, _)| group.is_leader()))
    }

    /// The newest revision that any member has.
    pub fn newest(&self) -> u64 {
        self.groups().iter().map(|group| group.applied_revision().0).max().unwrap_or(1)
    }

    pub fn stall_ms(&self, member: u64) -> Arc<AtomicU64> {
        self.members[&member].lock().stall_ms.clone()
    }

    pub async fn start(&self, id: u64) {
        let (config, ground, disk) = {
            let mut member = self.members[&id].lock();
            if member.running.is_some() {
                return;
            }
            member.incarnation += 1;
            let incarnation = member.incarnation;
            self.network.start(id, incarnation);
            let place =
                Place { network: self.network.clone(), member: id, incarnation, stall_ms: member.stall_ms.clone() };
            let disk: DiskRef = member.disk.mount();
            // Small, so that a run sees many segments and reads entries back from the disk.
            let wal = WalConfig {
                segment_bytes: 8 << 10,
                zero_ahead_bytes: 2 << 10,
                cache_bytes: 2 << 10,
                ..WalConfig::default()
            };
            let members = (1..=3).map(|id| (id, format!("member-{id}:1"))).collect();
            let config = GroupConfig { member: id, members, log_keep: 5, ..GroupConfig::single("sim", "/store") };
            (config, Ground { disk, wal, simulation: Some(place) }, member.disk.clone())
        };
        match Group::open_on(config, ground).await {
            Ok(group) => {
                with(|context| context.snapshots.opened += usize::from(group.has_snapshot()));
                self.members[&id].lock().running = Some((group, CancellationToken::new()));
            }
            Err(_) if disk.died() => self.kill(id, Death::Process),
            Err(error) => {
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    text = format!("{text}: {cause}");
                    source = cause.source();
                }
                *self.refused.lock() = Some(Finding::Refused { member: id, error: text });
            }
        }
    }

    pub fn kill(&self, id: u64, death: Death) {
        let mut member = self.members[&id].lock();
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
        let disk = self.members[&id].lock().disk.clone();
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
        for member in 1..=3 {
            let Some((group, _)) = self.group(member) else { continue };
            let view = group.view();
            let newest = view.revision().0;
            let revisions = (newest.saturating_sub(20).max(2)..=newest).filter_map(|revision| {
                view.commit(revision).map(|commit| HashSample { member, revision, hash: commit.hash })
            });
            self.hashes.lock().extend(revisions);
        }
    }

    /// Ends all faults and waits until every member serves and holds the same; answers at which revision.
    async fn heal(&self) -> Result<Revision, Finding> {
        self.network.mend();
        let end = tokio::time::Instant::now() + REST;
        loop {
            for member in 1..=3 {
                self.stall_ms(member).store(0, Ordering::Relaxed);
                self.start(member).await;
            }
            if let Some(refused) = self.refused.lock().take() {
                return Err(refused);
            }
            let groups = self.groups();
            let mut states = Vec::new();
            for group in &groups {
                let read = tokio::time::timeout(Duration::from_secs(15), crate::api::Store::read_revision(group)).await;
                states.push(match read {
                    Ok(Ok(_)) => Some((group.applied_revision(), group.hash())),
                    Ok(Err(_)) | Err(_) => None,
                });
            }
            if let [Some((revision, _)), _, _] = states[..]
                && states.iter().all(|state| *state == states[0])
            {
                return Ok(revision);
            }
            if tokio::time::Instant::now() >= end {
                let said: Vec<_> = groups.iter().map(Group::raft_says).collect();
                return Err(Finding::NoRest(format!("{states:x?} {said:#?}")));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn judge(self: &Arc<Self>) -> Result<Calm, Finding> {
        let span = Span { start: "k".into(), end: Some("l".into()) };
        let Revision(revision) = loop {
            let rest = self.heal().await?;
            for member in 1..=3 {
                let mut client = Client::new(self.clone(), CLIENTS);
                client.ask(member, Request::Read { span: span.clone(), at: None, serializable: false }).await;
            }
            // A write whose client gave up may arrive as late as between these reads.
            if self.heal().await? == rest {
                break rest;
            }
        };
        self.sample();
        check_hashes(&self.hashes.lock()).map_err(Finding::History)?;
        let history = std::mem::take(&mut *self.history.lock());
        let explained = check(&history).map_err(|violation| {
            eprintln!("{}", gantry_history::describe(&history, &violation));
            Finding::History(violation)
        })?;
        if revision != explained.revision {
            return Err(Finding::NoRest(format!("clients saw {}, members hold {revision}", explained.revision)));
        }
        let (operations, unknown_done) = (history.operations.len(), explained.unknown_done.len());
        Ok(Calm { operations, revision, unknown_done, ..Calm::default() })
    }
}
