//! Whole groups in one thread, under a virtual clock, network and disk that all follow from one seed: real members, real
//! Raft, real log and snapshots, and clients whose history is checked. A run that fails is replayed by its seed.
//!
//! What is not real: gRPC and TLS below the frames, threads, and the machine's file system.

mod changes;
mod clients;
mod dice;
mod disk;
mod faults;
mod loss;
mod network;
mod place;
mod rest;
mod runtime;
mod scenes;
mod tests;
pub mod watch;
mod words;
mod world;

use crate::plant::Plant;
use std::cell::RefCell;
use std::collections::BTreeMap;

pub use network::{Call, Line, Lines};
pub use place::Place;
pub use runtime::Runtime;

/// How often a member went on from a snapshot instead of its own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Starts from the one on its own disk.
    pub opened: usize,
    /// Sent by the leader, because the log before it was gone.
    pub installed: usize,
}

/// What the simulation of this thread knows of itself.
struct Context {
    dice: u64,
    plant: Option<Plant>,
    started: tokio::time::Instant,
    /// A fingerprint of everything that happened.
    trace: u64,
    /// The last one that was given.
    moments: u64,
    panics: Vec<String>,
    snapshots: Snapshots,
    /// Which lease a value was put to, as the checker calls it.
    leased: BTreeMap<String, u64>,
    /// How often a log was out of space.
    full_disks: usize,
    /// How often a member lost its directory.
    lost: usize,
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

fn with<T>(work: impl FnOnce(&mut Context) -> T) -> Option<T> {
    CONTEXT.with(|context| context.borrow_mut().as_mut().map(work))
}

pub fn running() -> bool {
    with(|_| ()).is_some()
}

pub fn planted(plant: Plant) -> bool {
    with(|context| context.plant == Some(plant)).unwrap_or(false)
}

/// Milliseconds of virtual time, which began long ago.
pub fn now_ms() -> Option<u64> {
    with(|context| context.started.elapsed().as_millis() as u64 + 1_000_000)
}

/// A random number, if this is a simulation.
pub fn chance() -> Option<u64> {
    dice::next()
}

/// Nanoseconds of virtual time, and a little more where two would be the same moment.
fn moment() -> u64 {
    with(|context| {
        context.moments = (context.moments + 1).max(context.started.elapsed().as_nanos() as u64);
        context.moments
    })
    .unwrap_or(0)
}

/// Takes what happened into the fingerprint.
fn trace(what: u64) {
    with(|context| {
        let now = context.started.elapsed().as_nanos() as u64;
        context.trace = dice::mix(context.trace ^ what.rotate_left(32) ^ now);
    });
}
