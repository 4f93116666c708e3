//! The queues of one priority level. Decides who gets the next free seat; never how many seats there are.

use super::LevelConfig;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// All of the flow's queues are full, or no seat became free in time. The caller answers 429 and asks to come back later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests, please try again later")]
pub struct Rejected {
    pub retry_after_s: u32,
}

/// The right to run. Dropping it lets the next request run.
#[derive(Debug)]
pub struct Seat {
    level: Arc<Level>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.level.leave();
    }
}

#[derive(Debug)]
pub struct Level {
    config: LevelConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    executing: usize,
    queues: Vec<Queue>,
    /// The service that the least-served busy queue has had; new queues start from here.
    virtual_time: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<oneshot::Sender<()>>,
    /// Seats given to this queue so far, on the level's virtual clock.
    served: u64,
}

impl Level {
    pub fn new(config: LevelConfig) -> Self {
        let queues = (0..config.queues).map(|_| Queue::default()).collect();
        Self { config, state: Mutex::new(State { queues, ..State::default() }) }
    }

    pub async fn enter(self: &Arc<Self>, flow: u64) -> Result<Seat, Rejected> {
        let turn = {
            let mut state = self.state.lock();
            if state.executing < self.config.seats {
                state.executing += 1;
                return Ok(Seat { level: self.clone() });
            }
            state.enqueue(&self.config, flow)?
        };
        // A seat that was given just when the waiter went away is passed on by `Pending::drop`.
        let mut pending = Pending { level: self, turn: Some(turn) };
        let turn = pending.turn.as_mut().expect("set in the line above");
        let granted = turn.await.is_ok();
        pending.turn = None;
        if granted { Ok(Seat { level: self.clone() }) } else { Err(Rejected { retry_after_s: 1 }) }
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        while let Some(next) = state.next() {
            if next.send(()).is_ok() {
                return;
            }
        }
        state.executing -= 1;
    }

    pub fn executing(&self) -> usize {
        self.state.lock().executing
    }

    pub fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.queues.iter().map(|queue| queue.waiting.iter().filter(|waiter| !waiter.is_closed()).count()).sum()
    }
}

struct Pending<'a> {
    level: &'a Level,
    turn: Option<oneshot::Receiver<()>>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(mut turn) = self.turn.take() {
            turn.close();
            if turn.try_recv().is_ok() {
                self.level.leave();
            }
        }
    }
}

impl State {
    /// Joins the shortest of the flow's queues.
    fn enqueue(&mut self, config: &LevelConfig, flow: u64) -> Result<oneshot::Receiver<()>, Rejected> {
        let rejected = Rejected { retry_after_s: 1 };
        let hand = deal(flow, config.queues, config.hand);
        for at in &hand {
            self.queues[*at].waiting.retain(|waiter| !waiter.is_closed());
        }
        let shortest = hand.into_iter().min_by_key(|at| self.queues[*at].waiting.len()).ok_or(rejected)?;
        let queue = &mut self.queues[shortest];
        if queue.waiting.len() >= config.queue_length {
            return Err(rejected);
        }
        if queue.waiting.is_empty() {
            queue.served = queue.served.max(self.virtual_time);
        }
        let (sender, receiver) = oneshot::channel();
        queue.waiting.push_back(sender);
        Ok(receiver)
    }

    /// The first waiter of the busy queue that has been served least.
    fn next(&mut self) -> Option<oneshot::Sender<()>> {
        let queue =
            self.queues.iter_mut().filter(|queue| !queue.waiting.is_empty()).min_by_key(|queue| queue.served)?;
        self.virtual_time = queue.served;
        queue.served += 1;
        queue.waiting.pop_front()
    }
}

/// Shuffle sharding: `hand` different queues out of `queues`, always the same ones for a flow.
fn deal(flow: u64, queues: usize, hand: usize) -> Vec<usize> {
    let mut deck: Vec<usize> = (0..queues).collect();
    let mut bits = flow;
    (0..hand.min(queues))
        .map(|_| {
            // SplitMix64: well mixed bits from any seed.
            bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = bits;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            let pick = usize::try_from(mixed % deck.len() as u64).expect("less than the deck's length");
            deck.swap_remove(pick)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::LevelName;
    use super::*;
    use futures::FutureExt;

    fn level(seats: usize, queues: usize, queue_length: usize, hand: usize) -> Arc<Level> {
        Arc::new(Level::new(LevelConfig { name: LevelName::WorkloadLow, seats, queues, queue_length, hand }))
    }

    #[test]
    fn a_hand_is_distinct_and_stable() {
        for flow in 0..100 {
            let mut hand = deal(flow, 16, 4);
            assert_eq!(hand, deal(flow, 16, 4));
            hand.sort_unstable();
            hand.dedup();
            assert_eq!(hand.len(), 4);
        }
    }

    #[test]
    fn a_full_queue_turns_away_and_no_queue_turns_away_at_once() {
        let level = level(1, 4, 2, 1);
        let seat = level.enter(1).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(level.enter(1))).collect();
        for wait in &mut waiting {
            assert!(wait.now_or_never().is_none());
        }
        assert_eq!(level.enter(1).now_or_never().unwrap().err(), Some(Rejected { retry_after_s: 1 }));
        drop(seat);
        let first = waiting.remove(0).now_or_never().unwrap().unwrap();
        assert_eq!((level.executing(), level.waiting()), (1, 1));
        drop(first);
        assert!(level.enter(9).now_or_never().is_none(), "the seat belongs to the one who waits");

        let strict = self::level(1, 0, 50, 0);
        let _seat = strict.enter(1).now_or_never().unwrap().unwrap();
        assert!(strict.enter(1).now_or_never().unwrap().is_err());
    }

    #[test]
    fn a_quiet_flow_does_not_wait_behind_a_noisy_one() {
        let level = level(1, 64, 50, 1);
        let quiet = (1..).find(|flow| deal(*flow, 64, 1) != deal(0, 64, 1)).unwrap();
        let mut seat = level.enter(0).now_or_never().unwrap().unwrap();
        let mut noisy: VecDeque<_> = (0..20).map(|_| Box::pin(level.enter(0))).collect();
        for wait in &mut noisy {
            assert!(wait.now_or_never().is_none());
        }
        let mut late = Box::pin(level.enter(quiet));
        assert!((&mut late).now_or_never().is_none());
        let mut turns = 0;
        while (&mut late).now_or_never().is_none() {
            drop(seat);
            turns += 1;
            match noisy.front_mut().unwrap().now_or_never() {
                Some(next) => {
                    noisy.pop_front();
                    seat = next.unwrap();
                }
                None => break,
            }
        }
        assert!(turns <= 2, "waited {turns} turns");
    }

    #[test]
    fn a_waiter_that_leaves_passes_its_seat_on() {
        let level = level(1, 1, 5, 1);
        let seat = level.enter(0).now_or_never().unwrap().unwrap();
        let mut leaver = Box::pin(level.enter(0));
        assert!((&mut leaver).now_or_never().is_none());
        drop(seat);
        drop(leaver);
        assert_eq!(level.executing(), 0);
        assert!(level.enter(0).now_or_never().unwrap().is_ok());
    }
}
