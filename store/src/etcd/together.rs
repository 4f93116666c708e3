//! Joins single transactions of one moment into one call: a call for each costs both sides more than what it does. It decides
//! which wait and which go together; how a call is made is the caller's. Nobody waits for company: what is asked for while few
//! calls are on their way goes at once.

use super::batch;
use crate::api::{StoreError, Txn, TxnReply};
use parking_lot::Mutex;
use std::mem;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Calls on their way at once: while one is decided on, another is already being sent.
const CALLS: usize = 2;

pub type Outcome = Result<TxnReply, StoreError>;

/// Where transactions wait. How many do is bounded by who asks: an API server's requests have seats.
#[derive(Default)]
pub struct Together {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    calls: usize,
    waiting: Vec<Waiting>,
}

struct Waiting {
    txn: Txn,
    answer: oneshot::Sender<Outcome>,
}

impl Together {
    /// Carries out a transaction, maybe with others. `call` answers each of those that it is given, in their order.
    pub async fn txn<F, R>(self: &Arc<Self>, txn: Txn, call: F) -> Outcome
    where
        F: Fn(Vec<Txn>) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<Outcome>> + Send + 'static,
    {
        let (answer, outcome) = oneshot::channel();
        let begins = {
            let mut queue = self.queue.lock();
            queue.waiting.push(Waiting { txn, answer });
            let begins = queue.calls < CALLS;
            queue.calls += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: whoever asked may leave, and the others still wait.
            tokio::spawn(Calling { together: self.clone(), is_over: false }.run(call));
        }
        outcome.await.unwrap_or_else(|_| Err(StoreError::Unknown("the call ended before it was answered".into())))
    }

    /// Those that go with the next call. Whoever left is not asked for.
    fn next(&self) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        queue.waiting.retain(|waiting| !waiting.answer.is_closed());
        let fitting = batch::fitting(queue.waiting.iter().map(|waiting| &waiting.txn));
        let later = queue.waiting.split_off(fitting);
        let now = mem::replace(&mut queue.waiting, later);
        if now.is_empty() {
            queue.calls -= 1;
        }
        now
    }

    /// A call ended where it should not have. Without another one, what waits is not sent.
    fn broke(&self) {
        let mut queue = self.queue.lock();
        queue.calls -= 1;
        if queue.calls == 0 {
            queue.waiting.clear();
        }
    }
}

/// One of the calls on their way, until nothing waits.
struct Calling {
    together: Arc<Together>,
    is_over: bool,
}

impl Drop for Calling {
    fn drop(&mut self) {
        if !self.is_over {
            self.together.broke();
        }
    }
}

impl Calling {
    async fn run<F, R>(mut self, call: F)
    where
        F: Fn(Vec<Txn>) -> R + Send + 'static,
        R: Future<Output = Vec<Outcome>> + Send + 'static,
    {
        loop {
            let now = self.together.next();
            if now.is_empty() {
                self.is_over = true;
                return;
            }
            let (txns, answers): (Vec<_>, Vec<_>) = now.into_iter().map(|one| (one.txn, one.answer)).unzip();
            // An answer that is missing is unknown to who hears nothing; who left hears nothing either.
            for (answer, outcome) in answers.into_iter().zip(call(txns).await) {
                let _ = answer.send(outcome);
            }
        }
    }
}

#[cfg(test)]
#[path = "together_tests.rs"]
mod tests;
