//! A priority level as requests meet it: they wait here for their seat. The queues decide; this reads the clock and wakes.

use super::estimate::Work;
use super::queues::{Arrival, Id, Micros, Queues, Refusal, Shape};
use super::retry::RetryAfter;
use super::schema::Schema;
use super::tally::{InFlight, Tally};
use gantry_apimachinery::time::Timestamp;
use http::{Method, Uri};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// A request that has found no seat by then is turned away: its client asks again.
const PATIENCE: Duration = Duration::from_secs(15);

/// The flow's queues are full, or no seat became free in time. The caller answers 429 and asks to come back later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests, please try again later")]
pub struct Rejected {
    pub why: Refusal,
    pub retry_after_s: u32,
}

/// One request's label in the queues, for those who look at them.
#[derive(Debug)]
pub struct Tag {
    pub schema: Arc<Schema>,
    pub tally: Arc<Tally>,
    pub work: Work,
    pub came: Timestamp,
    pub user: Box<str>,
    pub method: Method,
    pub uri: Uri,
    /// Runs until the watch has begun.
    pub watch: bool,
}

#[derive(Debug)]
pub struct Level {
    /// Times of the queues are from here.
    zero: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queues: Queues<Tag>,
    waiting: HashMap<Id, oneshot::Sender<()>>,
    retry: RetryAfter,
}

impl Level {
    pub fn new(shape: Shape, limit: usize) -> Self {
        let queues = Queues::new(shape, limit, 0);
        let state = Mutex::new(State { queues, waiting: HashMap::new(), retry: RetryAfter::default() });
        Self { zero: Instant::now(), state }
    }

    fn now(&self) -> Micros {
        Micros::try_from(self.zero.elapsed().as_micros()).unwrap_or(Micros::MAX)
    }

    /// Waits for the request's seats.
    pub async fn enter(self: &Arc<Self>, flow: u64, tag: Tag, in_flight: InFlight) -> Result<Seat, Rejected> {
        let (work, watch, tally, arrived) = (tag.work, tag.watch, tag.tally.clone(), self.now());
        let (id, turn) = {
            let mut state = self.state.lock();
            match state.queues.arrive(arrived, flow, work.seats, tag) {
                Ok(Arrival::Runs(id)) => (id, None),
                Ok(Arrival::Waits(id)) => {
                    let (sender, receiver) = oneshot::channel();
                    state.waiting.insert(id, sender);
                    tally.waits(work.seats, state.queues.beside(id));
                    // Seats may be free while a wider request waits for more.
                    state.give_out(arrived);
                    (id, Some(receiver))
                }
                Err(why) => {
                    tally.refused(why, 0);
                    return Err(Rejected { why, retry_after_s: state.retry.refused(arrived) });
                }
            }
        };
        if let Some(turn) = turn {
            let mut pending = Pending { level: self, id: Some(id), tally: &tally, seats: work.seats, arrived };
            let granted = timeout(PATIENCE, turn).await.is_ok();
            pending.id = None;
            tally.waits_no_more(work.seats);
            if !granted && let Some(retry_after_s) = self.gave_up(id, Refusal::TimeOut) {
                tally.refused(Refusal::TimeOut, self.now().saturating_sub(arrived));
                return Err(Rejected { why: Refusal::TimeOut, retry_after_s });
            }
        }
        let started = self.now();
        tally.starts(work.seats, started.saturating_sub(arrived));
        in_flight.enter();
        Ok(Seat { level: self.clone(), id, work, started, watch, tally, in_flight })
    }

    /// When to come again; `None` when it has its seats already.
    fn gave_up(&self, id: Id, why: Refusal) -> Option<u32> {
        let now = self.now();
        let mut state = self.state.lock();
        state.waiting.remove(&id)?;
        state.queues.give_up(now, id, why);
        state.give_out(now);
        // Who went away is told nothing.
        Some(if why == Refusal::Cancelled { 0 } else { state.retry.refused(now) })
    }

    fn leave(&self, now: Micros, id: Id) {
        let mut state = self.state.lock();
        state.queues.finish(now, id);
        state.give_out(now);
    }

    pub fn reshape(&self, shape: Shape) {
        self.state.lock().queues.reshape(shape);
    }

    pub fn set_limit(&self, limit: usize) {
        let now = self.now();
        let mut state = self.state.lock();
        state.queues.set_limit(limit);
        state.give_out(now);
    }

    /// Looks at the queues as they are.
    pub fn look<T>(&self, look: impl FnOnce(&Queues<Tag>, Micros) -> T) -> T {
        let now = self.now();
        look(&self.state.lock().queues, now)
    }

    /// What was wanted since this was asked last.
    pub fn take_demand(&self) -> super::borrowing::Reading {
        let now = self.now();
        self.state.lock().queues.demand.take(now)
    }
}

impl State {
    fn give_out(&mut self, now: Micros) {
        while let Some(id) = self.queues.next(now) {
            // Who is gone meanwhile gives the seats back when it is dropped.
            let told = self.waiting.remove(&id).is_some_and(|sender| sender.send(()).is_ok());
            if !told {
                self.queues.finish(now, id);
            }
        }
    }
}

/// A request that waits. Dropped with its id when its client goes away.
struct Pending<'a> {
    level: &'a Level,
    id: Option<Id>,
    tally: &'a Tally,
    seats: usize,
    arrived: Micros,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        self.tally.waits_no_more(self.seats);
        if self.level.gave_up(id, Refusal::Cancelled).is_some() {
            self.tally.refused(Refusal::Cancelled, self.level.now().saturating_sub(self.arrived));
        } else {
            self.level.leave(self.level.now(), id);
        }
    }
}

/// The right to run. Dropping it lets the next request run, at once or when the fan-out of a write is over.
#[derive(Debug)]
pub struct Seat {
    level: Arc<Level>,
    id: Id,
    work: Work,
    started: Micros,
    watch: bool,
    tally: Arc<Tally>,
    in_flight: InFlight,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let now = self.level.now();
        self.tally.ends(self.work.seats, now.saturating_sub(self.started), self.watch);
        self.in_flight.leave();
        let (level, id) = (self.level.clone(), self.id);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if self.work.after_us > 0 => {
                let after = Duration::from_micros(self.work.after_us);
                runtime.spawn(async move {
                    sleep(after).await;
                    level.leave(level.now(), id);
                });
            }
            _ => level.leave(now, id),
        }
    }
}
