//! The queues of one priority level. Decides who runs, who waits and who is turned away; never how many seats there are, which
//! requests belong here, or what time it is.
//!
//! Each queue has a virtual clock: the seat-time that its requests have been given. A free seat goes to the waiting queue whose
//! clock is furthest behind (start-time fair queuing). How long a request will run is guessed when it starts and put right when it
//! ends. A queue that nobody uses is forgotten once its clock is not ahead any more, so that a level with ten million queues costs
//! what its requests cost.

use super::borrowing::Demand;
use super::deal::deal;
use std::collections::{BTreeMap, VecDeque};

/// Microseconds on the level's clock.
pub type Micros = u64;
pub type Id = u64;

/// How long a request probably holds its seats (as Kubernetes guesses).
const GUESS_US: Micros = 3_000;
/// How many queues that nobody uses are kept for being ahead.
const MOST_AHEAD: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// 0: who finds no seat is turned away at once.
    pub queues: usize,
    /// How many queues a flow may use.
    pub hand: usize,
    /// How many requests may wait in one queue.
    pub queue_length: usize,
}

/// Why a request got no seat, as the metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    QueueFull,
    ConcurrencyLimit,
    TimeOut,
    Cancelled,
}

impl Refusal {
    pub const ALL: [Self; 4] = [Self::QueueFull, Self::ConcurrencyLimit, Self::TimeOut, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Runs(Id),
    Waits(Id),
}

/// What became of the requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

#[derive(Debug)]
pub struct Job<T> {
    pub tag: T,
    pub seats: usize,
    pub flow: u64,
    /// `None` in a level without queues, and when the level got other queues since.
    pub queue: Option<usize>,
    pub arrived: Micros,
    pub started: Option<Micros>,
}

#[derive(Debug, Default)]
pub struct Queue {
    pub waiting: VecDeque<Id>,
    pub waiting_seats: usize,
    pub executing: usize,
    pub seats_in_use: usize,
    /// The seat-microseconds that this queue has been given, on the level's virtual clock.
    pub clock: u64,
}

#[derive(Debug)]
pub struct Queues<T> {
    shape: Shape,
    limit: usize,
    queues: BTreeMap<usize, Queue>,
    jobs: BTreeMap<Id, Job<T>>,
    next_id: Id,
    /// Where the queue that was served last began: who comes now begins here.
    clock: u64,
    in_use: usize,
    executing: usize,
    waiting_seats: usize,
    pub counts: Counts,
    pub demand: Demand,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }
}

impl<T> Queues<T> {
    pub fn new(shape: Shape, limit: usize, now: Micros) -> Self {
        Self {
            shape,
            limit,
            queues: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_id: 0,
            clock: 0,
            in_use: 0,
            executing: 0,
            waiting_seats: 0,
            counts: Counts::default(),
            demand: Demand::new(now),
        }
    }

    /// A request is here. One that waits may be the next: ask [`Self::next`].
    pub fn arrive(&mut self, now: Micros, flow: u64, seats: usize, tag: T) -> Result<Arrival, Refusal> {
        let queue = self.choose(flow);
        let runs = self.waiting() == 0 && self.fits(seats);
        if !runs {
            let refusal = match queue {
                None => Some(Refusal::ConcurrencyLimit),
                Some(at) if self.length(at) >= self.shape.queue_length => Some(Refusal::QueueFull),
                Some(_) => None,
            };
            if let Some(refusal) = refusal {
                self.counts.rejected += 1;
                return Err(refusal);
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        self.jobs.insert(id, Job { tag, seats, flow, queue, arrived: now, started: None });
        if runs {
            self.start(now, id);
        } else {
            self.join(id);
        }
        self.measure(now);
        Ok(if runs { Arrival::Runs(id) } else { Arrival::Waits(id) })
    }

    /// Gives seats to the next who waits; `None` when nobody does or the seats do not suffice. Ask again until then.
    pub fn next(&mut self, now: Micros) -> Option<Id> {
        if self.waiting() == 0 {
            return None;
        }
        let busy = self.queues.iter().filter_map(|(at, queue)| Some((queue.clock, *queue.waiting.front()?, *at)));
        // Of two that are equally behind, who came first.
        let (_, id, at) = busy.min()?;
        // A wide request at the head is waited for, or narrow ones would pass it for ever.
        if !self.fits(self.jobs[&id].seats) {
            return None;
        }
        let seats = self.jobs[&id].seats;
        let queue = self.queues.get_mut(&at).expect("found above");
        queue.waiting.pop_front();
        queue.waiting_seats -= seats;
        self.waiting_seats -= seats;
        self.start(now, id);
        self.measure(now);
        Some(id)
    }

    /// A running request is done.
    pub fn finish(&mut self, now: Micros, id: Id) -> Option<T> {
        let job = self.jobs.remove(&id)?;
        let took = now.saturating_sub(job.started.unwrap_or(now));
        self.in_use -= job.seats;
        self.executing -= 1;
        if let Some(queue) = job.queue.and_then(|at| self.queues.get_mut(&at)) {
            queue.executing -= 1;
            queue.seats_in_use -= job.seats;
            queue.clock = (queue.clock + seat_time(job.seats, took)).saturating_sub(seat_time(job.seats, GUESS_US));
        }
        self.forget_idle(job.queue);
        self.measure(now);
        Some(job.tag)
    }

    /// A waiting request gives up.
    pub fn give_up(&mut self, now: Micros, id: Id, why: Refusal) -> Option<T> {
        let job = self.jobs.remove(&id)?;
        if let Some(queue) = job.queue.and_then(|at| self.queues.get_mut(&at)) {
            queue.waiting.retain(|other| *other != id);
            queue.waiting_seats -= job.seats;
        }
        self.waiting_seats -= job.seats;
        match why {
            Refusal::TimeOut => self.counts.timed_out += 1,
            _ => self.counts.cancelled += 1,
        }
        self.forget_idle(job.queue);
        self.measure(now);
        Some(job.tag)
    }

    /// Other queues: who waits is dealt again in the order of arrival, even beyond the new queues' length.
    pub fn reshape(&mut self, shape: Shape) {
        if self.shape == shape {
            return;
        }
        self.shape = shape;
        self.queues.clear();
        self.waiting_seats = 0;
        let waiting: Vec<Id> = self.jobs.iter().filter(|(_, job)| job.started.is_none()).map(|(id, _)| *id).collect();
        self.jobs.values_mut().for_each(|job| job.queue = None);
        for id in waiting {
            // A level that has no queues any more lets those who wait already go in turn.
            let queue = self.choose(self.jobs[&id].flow).unwrap_or(0);
            self.jobs.get_mut(&id).expect("listed above").queue = Some(queue);
            self.join(id);
        }
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    pub fn executing(&self) -> usize {
        self.executing
    }

    pub fn waiting(&self) -> usize {
        self.jobs.len() - self.executing
    }

    pub fn queues(&self) -> impl Iterator<Item = (usize, &Queue)> {
        self.queues.iter().map(|(at, queue)| (*at, queue))
    }

    /// The seat-microseconds that those who wait in a queue will probably take.
    pub fn work_waiting(&self, queue: &Queue) -> u64 {
        seat_time(queue.waiting_seats, GUESS_US)
    }

    pub fn jobs(&self) -> impl Iterator<Item = (Id, &Job<T>)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    #[cfg(test)]
    pub fn job(&self, id: Id) -> Option<&Job<T>> {
        self.jobs.get(&id)
    }

    /// A limit of zero holds everybody; otherwise one request alone may be wider than the whole level.
    fn fits(&self, seats: usize) -> bool {
        self.limit > 0 && (self.in_use == 0 || self.in_use.saturating_add(seats) <= self.limit)
    }

    /// The flow's queue that has the least to do.
    fn choose(&self, flow: u64) -> Option<usize> {
        let todo = |at: &usize| self.queues.get(at).map_or((0, 0), |queue| (queue.waiting_seats, queue.seats_in_use));
        deal(flow, self.shape.queues, self.shape.hand).iter().copied().min_by_key(todo)
    }

    fn length(&self, at: usize) -> usize {
        self.queues.get(&at).map_or(0, |queue| queue.waiting.len())
    }

    /// How many wait in this request's queue.
    pub fn beside(&self, id: Id) -> usize {
        self.jobs.get(&id).and_then(|job| job.queue).map_or(0, |at| self.length(at))
    }

    fn join(&mut self, id: Id) {
        let (clock, job) = (self.clock, &self.jobs[&id]);
        let queue = self.queues.entry(job.queue.expect("who waits has a queue")).or_default();
        if queue.waiting.is_empty() {
            queue.clock = queue.clock.max(clock);
        }
        queue.waiting.push_back(id);
        queue.waiting_seats += job.seats;
        self.waiting_seats += job.seats;
    }

    fn start(&mut self, now: Micros, id: Id) {
        let job = self.jobs.get_mut(&id).expect("it arrived");
        job.started = Some(now);
        self.in_use += job.seats;
        self.executing += 1;
        self.counts.dispatched += 1;
        if let Some(at) = job.queue {
            let queue = self.queues.entry(at).or_default();
            queue.executing += 1;
            queue.seats_in_use += job.seats;
            queue.clock = queue.clock.max(self.clock);
            self.clock = queue.clock;
            queue.clock += seat_time(job.seats, GUESS_US);
        }
    }

    fn forget_idle(&mut self, at: Option<usize>) {
        if self.jobs.is_empty() {
            // With nobody there, nobody is ahead of anybody.
            self.queues.clear();
            return;
        }
        let ahead = self.clock;
        if let Some(at) = at
            && self.queues.get(&at).is_some_and(|queue| queue.is_idle() && queue.clock <= ahead)
        {
            self.queues.remove(&at);
        }
        if self.queues.len() > self.jobs.len() + MOST_AHEAD {
            self.queues.retain(|_, queue| !queue.is_idle());
        }
    }

    fn measure(&mut self, now: Micros) {
        self.demand.update(now, self.in_use + self.waiting_seats);
    }
}

fn seat_time(seats: usize, micros: Micros) -> u64 {
    micros.saturating_mul(u64::try_from(seats).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
