//! The queue's promises: dedup, one worker per key, delays, back-off; and its invariants under any sequence of calls.

use proptest::prelude::*;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_handled_once() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.next().await, Some("a"));
    assert_eq!(queue.next().await, Some("b"));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_waits_for_its_worker() {
    let queue = WorkQueue::new();
    queue.add(1);
    assert_eq!(queue.next().await, Some(1));
    queue.add(1);
    assert_eq!(queue.len(), 0, "the key is in a worker's hands");
    queue.done(&1);
    assert_eq!(queue.next().await, Some(1));
    queue.done(&1);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_earliest_delay_counts_and_an_add_overtakes_it() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("x", Duration::from_secs(30));
    queue.add_after("x", Duration::from_secs(10));
    queue.add_after("x", Duration::from_secs(20));
    assert_eq!(queue.next().await, Some("x"));
    assert_eq!(start.elapsed().as_secs(), 10);
    queue.done(&"x");
    queue.add_after("x", Duration::from_secs(10));
    queue.add("x");
    assert_eq!(queue.next().await, Some("x"));
    assert_eq!(start.elapsed().as_secs(), 10);
    queue.done(&"x");
    assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err(), "the delay is gone");
}

#[tokio::test(start_paused = true)]
async fn a_delay_asked_for_in_work_counts_after_it() {
    let queue = WorkQueue::new();
    queue.add("x");
    assert_eq!(queue.next().await, Some("x"));
    queue.add_after("x", Duration::from_secs(5));
    queue.done(&"x");
    assert_eq!(queue.next().await, Some("x"));
}

#[tokio::test(start_paused = true)]
async fn backs_off_until_forgotten() {
    let queue = WorkQueue::new();
    let mut waits = Vec::new();
    for _ in 0..16 {
        let start = Instant::now();
        queue.add_rate_limited(7);
        queue.next().await.unwrap();
        waits.push(start.elapsed().as_millis());
        queue.done(&7);
    }
    assert_eq!(waits[..4], [5, 10, 20, 40]);
    assert_eq!(waits[15], 60_000);
    queue.forget(&7);
    let start = Instant::now();
    queue.add_rate_limited(7);
    queue.next().await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 5);
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_gets_work_and_close_ends_them() {
    let queue = WorkQueue::new();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut seen = 0;
                while let Some(key) = queue.next().await {
                    seen += 1;
                    queue.done(&key);
                    tokio::task::yield_now().await;
                }
                seen
            })
        })
        .collect();
    for key in 0..100 {
        queue.add(key);
    }
    while !queue.is_empty() {
        tokio::task::yield_now().await;
    }
    queue.close();
    let mut total = 0;
    for worker in workers {
        total += worker.await.unwrap();
    }
    assert_eq!(total, 100);
}

#[tokio::test(start_paused = true)]
async fn a_resting_key_waits_and_loses_nothing() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add("big");
    assert_eq!(queue.next().await, Some("big"));
    queue.done_after(&"big", Duration::from_secs(3));
    queue.add("big");
    queue.add("small");
    assert_eq!((queue.next().await, start.elapsed().as_secs()), (Some("small"), 0), "others do not wait");
    let (key, since) = queue.next_since().await.unwrap();
    assert_eq!((key, start.elapsed().as_secs(), since), ("big", 3, start));
    queue.done_after(&"big", Duration::from_secs(3));
    assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err(), "nothing was added");
    queue.add("big");
    assert_eq!((queue.next().await, start.elapsed().as_secs()), (Some("big"), 63), "rested long since");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_learns_of_a_rest() {
    let queue = WorkQueue::new();
    queue.add(1);
    assert_eq!(queue.next().await, Some(1));
    let waits = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await }
    });
    tokio::task::yield_now().await;
    queue.add(1);
    queue.done_after(&1, Duration::from_secs(2));
    assert_eq!(tokio::time::timeout(Duration::from_secs(3), waits).await.expect("woken").unwrap(), Some(1));
}

/// A worker that is idle and takes one key, with the time at which it did.
fn idle(queue: &WorkQueue<u8>) -> tokio::task::JoinHandle<(Option<u8>, Instant)> {
    let queue = queue.clone();
    tokio::spawn(async move { (queue.next().await, Instant::now()) })
}

#[tokio::test(start_paused = true)]
async fn while_one_works_another_waits_for_what_is_due_later() {
    let (queue, start) = (WorkQueue::new(), Instant::now());
    let workers = [idle(&queue), idle(&queue), idle(&queue)];
    tokio::task::yield_now().await;
    // Only the first of these wakes a worker. None that took a key comes back.
    for (key, secs) in [(1, 10), (2, 20), (3, 30)] {
        queue.add_after(key, Duration::from_secs(secs));
    }
    let mut taken = Vec::new();
    for worker in workers {
        let taken_by = tokio::time::timeout(Duration::from_secs(60), worker).await;
        let (key, at) = taken_by.expect("an idle worker takes what is due").unwrap();
        taken.push((at.duration_since(start).as_secs(), key.unwrap()));
    }
    taken.sort_unstable();
    assert_eq!(taken, [(10, 1), (20, 2), (30, 3)]);
}

#[derive(Clone, Debug)]
enum Call {
    Add(u8),
    Delay(u8, u64),
    Take,
    Done(u8),
    Rest(u8, u64),
    Pass(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        (0..4_u8).prop_map(Call::Add),
        (0..4_u8, 1..50_u64).prop_map(|(k, ms)| Call::Delay(k, ms)),
        Just(Call::Take),
        (0..4_u8).prop_map(Call::Done),
        (0..4_u8, 1..90_u64).prop_map(|(k, ms)| Call::Rest(k, ms)),
        (1..60_u64).prop_map(Call::Pass),
    ];
    proptest::collection::vec(call, 0..60)
}

/// A worker holds the key and has not put it to rest.
fn works(state: &State<u8>, key: u8) -> bool {
    state.running.contains_key(&key) && !state.resting.values().any(|k| *k == key)
}

proptest! {
    /// Whatever is added is handled after its last addition, and a key is never in two hands.
    #[test]
    fn nothing_added_is_lost(calls in calls()) {
        let start = Instant::now();
        let (mut now, mut state, mut owed) = (start, State::new(), std::collections::BTreeSet::new());
        for call in calls {
            match call {
                Call::Add(k) => { state.add(k, now); owed.insert(k); }
                Call::Delay(k, ms) => { state.delay(k, now + Duration::from_millis(ms)); owed.insert(k); }
                Call::Take => { state.release_due(now); if let Some((k, since)) = state.take() {
                    prop_assert!(since <= now);
                    if !state.due.contains_key(&k) { owed.remove(&k); } } }
                Call::Done(k) => { if works(&state, k) { state.done(&k); } }
                Call::Rest(k, ms) => { if works(&state, k) { state.rest(&k, now + Duration::from_millis(ms)); } }
                Call::Pass(ms) => now += Duration::from_millis(ms),
            }
            state.validate();
        }
        now += Duration::from_secs(1);
        for k in 0..4 { if works(&state, k) { state.done(&k); } }
        state.release_due(now);
        while let Some((k, _)) = state.take() { owed.remove(&k); }
        prop_assert!(owed.is_empty(), "lost {owed:?}");
    }
}
