//! Where one incarnation of a member stands in a simulation: its ways to the others, and a log whose every group takes a
//! while to be written.

use super::network::{Lines, Network};
use super::{dice, planted};
use crate::group::{EMPTY, Kept, LATER, Owner, Record};
use crate::peer::PeerService;
use crate::plant::Plant;
use crate::wal::Stepper;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a log that is out of space looks for some.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a member's directory holds beside log and snapshots. Every change is durable before anybody hears of it.
#[derive(Clone)]
pub struct Papers {
    owner: Arc<Mutex<Owner>>,
    kept: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Papers {
    /// Those of a directory that nobody used.
    pub fn new(member: u64, joins: bool) -> Self {
        let begins = if joins { LATER } else { EMPTY };
        Self { owner: Arc::new(Mutex::new(Owner::new("sim", member, begins))), kept: Arc::default() }
    }

    pub fn open(&self) -> (Owner, Record, Kept) {
        let kept = if planted(Plant::ForgetfulWitness) { Arc::default() } else { self.kept.clone() };
        (self.owner.lock().clone(), Record::Simulated(self.owner.clone()), Kept::simulated(kept))
    }
}

#[derive(Clone)]
pub struct Place {
    pub papers: Papers,
    pub network: Network,
    pub member: u64,
    pub incarnation: u64,
    /// How many milliseconds more a group of records takes; a stalled disk.
    pub stall_ms: Arc<AtomicU64>,
}

impl Place {
    pub fn lines(&self) -> Lines {
        Lines { network: self.network.clone(), from: self.member, incarnation: self.incarnation }
    }

    pub fn serve(&self, service: PeerService) {
        self.network.serve(self.member, self.incarnation, service);
    }

    /// Writes what gathers, group by group. While there is no room it looks for some as often as the log's own thread does.
    pub fn run_log(&self, mut stepper: Stepper) {
        let stall_ms = self.stall_ms.clone();
        tokio::spawn(async move {
            loop {
                if !stepper.is_short() {
                    if !stepper.arrived().await {
                        return;
                    }
                    let stall_us = stall_ms.load(Ordering::Relaxed) * 1_000;
                    tokio::time::sleep(Duration::from_micros(stall_us + dice::between(100, 4_000))).await;
                } else if stepper.waits() {
                    tokio::time::sleep(LOOK_EVERY).await;
                } else {
                    tokio::select! {
                        biased;
                        more = stepper.arrived() => if !more { return },
                        () = tokio::time::sleep(LOOK_EVERY) => {}
                    }
                }
                if stepper.has_room() && stepper.waits() {
                    stepper.step();
                }
            }
        });
    }
}
