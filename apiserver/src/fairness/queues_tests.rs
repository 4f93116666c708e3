//! The queues of a level, step by step: nothing here waits or reads a clock.

use super::*;
use proptest::prelude::*;

fn queues(limit: usize, queues: usize, queue_length: usize, hand: usize) -> Queues<&'static str> {
    Queues::new(Shape { queues, hand, queue_length }, limit, 0)
}

/// A flow whose one queue differs from that of flow 0.
fn quiet(queues: usize) -> u64 {
    (1..).find(|flow| deal(*flow, queues, 1) != deal(0, queues, 1)).unwrap()
}

#[test]
fn a_full_queue_turns_away_and_no_queue_turns_away_at_once() {
    let mut level = queues(1, 4, 2, 1);
    assert_eq!(level.arrive(0, 1, 1, "a"), Ok(Arrival::Runs(0)));
    assert_eq!(level.arrive(0, 1, 1, "b"), Ok(Arrival::Waits(1)));
    assert_eq!(level.arrive(0, 1, 1, "c"), Ok(Arrival::Waits(2)));
    assert_eq!(level.arrive(0, 1, 1, "d"), Err(Refusal::QueueFull));
    assert_eq!(level.next(1), None);
    assert_eq!(level.finish(1, 0), Some("a"));
    assert_eq!(level.next(1), Some(1));
    assert_eq!(level.arrive(1, quiet(4), 1, "e"), Ok(Arrival::Waits(3)), "the seat belongs to the one who waits");
    assert_eq!(level.counts, Counts { dispatched: 2, rejected: 1, ..Counts::default() });

    let mut strict = queues(1, 0, 50, 0);
    assert_eq!(strict.arrive(0, 1, 1, "a"), Ok(Arrival::Runs(0)));
    assert_eq!(strict.arrive(0, 1, 1, "b"), Err(Refusal::ConcurrencyLimit));
}

#[test]
fn a_quiet_flow_does_not_wait_behind_a_noisy_one() {
    let mut level = queues(1, 64, 50, 1);
    for _ in 0..20 {
        level.arrive(0, 0, 1, "noisy").unwrap();
    }
    let Ok(Arrival::Waits(late)) = level.arrive(10, quiet(64), 1, "quiet") else { panic!("the seat is taken") };
    level.finish(1_000, 0).unwrap();
    let first = level.next(1_000).unwrap();
    level.finish(2_000, first).unwrap();
    let second = level.next(2_000).unwrap();
    assert!([first, second].contains(&late), "{first} {second}");
}

/// The longest that a flow with one request at a time waits for an answer, beside one that always asks for as much as it may.
/// Requests with a seat are worked off in the order in which they got it.
fn longest_beside_a_flood(seats: usize, cpus: usize, each: Micros) -> Micros {
    let mut level = queues(seats, 128, 50, 6);
    let noisy = 0;
    let quiet = (1..).find(|flow| deal(*flow, 128, 6).iter().all(|at| !deal(noisy, 128, 6).contains(at))).unwrap();
    let mut free_at = vec![0; cpus];
    let mut done = std::collections::BinaryHeap::new();
    let mut came = BTreeMap::new();
    let (mut now, mut longest, mut asked) = (0, 0, 0);
    while asked < 100 {
        let mut started = Vec::new();
        let mut arrive = |level: &mut Queues<&'static str>, flow, name| match level.arrive(now, flow, 1, name) {
            Ok(Arrival::Runs(id)) => {
                started.push(id);
                Some(id)
            }
            Ok(Arrival::Waits(id)) => Some(id),
            Err(_) => None,
        };
        if came.is_empty() && now > asked * 3 * each {
            let id = arrive(&mut level, quiet, "quiet").expect("its queues are its own");
            came.insert(id, now);
            asked += 1;
        }
        while arrive(&mut level, noisy, "noisy").is_some() {}
        started.extend(std::iter::from_fn(|| level.next(now)));
        for id in started {
            let cpu = free_at.iter_mut().min().unwrap();
            *cpu = now.max(*cpu) + each;
            done.push(std::cmp::Reverse((*cpu, id)));
        }
        let std::cmp::Reverse((at, id)) = done.pop().expect("a flood always runs");
        now = at;
        level.finish(now, id).unwrap();
        if let Some(came) = came.remove(&id) {
            longest = longest.max(now - came);
        }
    }
    longest
}

#[test]
fn a_single_write_is_not_kept_long_by_a_flood() {
    // All seats of a server with two CPUs, at three times what a write should cost: 30 ms for who has a seat already.
    let longest = longest_beside_a_flood(200, 2, 300);
    assert!(longest < 35_000, "{longest}");
    // What a write waits is what runs, not what waits.
    assert!(longest_beside_a_flood(20, 2, 300) < 5_000);
}

#[test]
fn who_had_more_than_its_share_is_not_forgiven_while_others_wait() {
    let mut level = queues(1, 64, 50, 1);
    let (noisy, quiet) = (0, quiet(64));
    assert_eq!(level.arrive(0, noisy, 1, "long"), Ok(Arrival::Runs(0)));
    for _ in 0..10 {
        level.arrive(0, quiet, 1, "short").unwrap();
    }
    level.finish(100_000, 0).unwrap();
    let mut order = vec![level.next(100_000).unwrap()];
    level.arrive(100_000, noisy, 1, "again").unwrap();
    for turn in 0..10 {
        let now = 100_000 + turn * 3_000;
        level.finish(now, *order.last().unwrap()).unwrap();
        order.extend(level.next(now));
    }
    assert_eq!(order, (1..=11).collect::<Vec<_>>(), "its queue had nobody in it for a moment");
}

#[test]
fn seat_time_counts_and_not_requests() {
    // Flow 0 holds two seats for 10 ms, the other one seat for 10 ms: of 300 turns' seat-time each gets a half.
    let mut level = queues(2, 64, 500, 1);
    let (wide, narrow) = (0, quiet(64));
    let mut running = Vec::new();
    for n in 0..400 {
        for (flow, seats, name) in [(wide, 2, "wide"), (narrow, 1, "narrow")] {
            if n < 400 / seats
                && let Ok(Arrival::Runs(id)) = level.arrive(0, flow, seats, name)
            {
                running.push(id);
            }
        }
    }
    let mut seat_turns = BTreeMap::new();
    for turn in 1..=100 {
        for id in std::mem::take(&mut running) {
            let seats = level.job(id).unwrap().seats;
            *seat_turns.entry(level.finish(turn * 10_000, id).unwrap()).or_insert(0) += seats;
        }
        while let Some(id) = level.next(turn * 10_000) {
            running.push(id);
        }
    }
    assert!(seat_turns["wide"].abs_diff(seat_turns["narrow"]) <= 20, "{seat_turns:?}");
}

#[test]
fn a_wide_request_is_not_passed_for_ever() {
    let mut level = queues(4, 1, 50, 1);
    for _ in 0..3 {
        assert!(matches!(level.arrive(0, 0, 1, "narrow"), Ok(Arrival::Runs(_))));
    }
    assert_eq!(level.arrive(0, 0, 4, "wide"), Ok(Arrival::Waits(3)));
    assert_eq!(level.arrive(0, 0, 1, "late"), Ok(Arrival::Waits(4)), "though a seat is free");
    for id in 0..3 {
        assert_eq!(level.next(1), None);
        level.finish(1, id).unwrap();
    }
    assert_eq!((level.next(1), level.next(1)), (Some(3), None));
    // Wider than the whole level: alone.
    let mut small = queues(2, 1, 50, 1);
    assert_eq!(small.arrive(0, 0, 9, "wide"), Ok(Arrival::Runs(0)));
}

#[test]
fn no_seats_hold_everybody_until_there_are_some() {
    let mut level = queues(0, 2, 5, 1);
    assert_eq!(level.arrive(0, 0, 1, "a"), Ok(Arrival::Waits(0)));
    assert_eq!(level.next(0), None);
    level.set_limit(1);
    assert_eq!(level.next(0), Some(0));
}

#[test]
fn other_queues_keep_who_waits_in_order() {
    let mut level = queues(1, 8, 50, 2);
    for flow in 0..6 {
        level.arrive(0, flow, 1, "x").unwrap();
    }
    for shape in [Shape { queues: 1, hand: 1, queue_length: 1 }, Shape { queues: 0, hand: 0, queue_length: 0 }] {
        level.reshape(shape);
        assert_eq!((level.executing(), level.waiting()), (1, 5));
    }
    assert_eq!(level.give_up(1, 3, Refusal::TimeOut), Some("x"));
    level.finish(1, 0).unwrap();
    let mut order = Vec::new();
    while let Some(id) = level.next(1) {
        order.push(id);
        level.finish(1, id).unwrap();
    }
    assert_eq!(order, [1, 2, 4, 5]);
    assert_eq!((level.in_use(), level.waiting(), level.queues().count()), (0, 0, 0), "nothing is left behind");
}

proptest! {
    /// Whatever happens: no seats beyond the limit but for one request alone, nobody lost, and at the end nothing left.
    #[test]
    fn seats_add_up(steps in proptest::collection::vec((0_u8..4, 0_u64..8, 1_usize..5), 1..200), limit in 1_usize..6) {
        let mut level = queues(limit, 4, 3, 2);
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        for (now, (what, flow, seats)) in steps.into_iter().enumerate() {
            let now = now as u64 * 1_000;
            match what {
                0 | 1 => match level.arrive(now, flow, seats, "x") {
                    Ok(Arrival::Runs(id)) => running.push(id),
                    Ok(Arrival::Waits(id)) => waiting.push(id),
                    Err(_) => {}
                },
                2 if !running.is_empty() => {
                    let id = running.remove(flow as usize % running.len());
                    prop_assert!(level.finish(now, id).is_some());
                }
                3 if !waiting.is_empty() => {
                    let id = waiting.remove(flow as usize % waiting.len());
                    prop_assert!(level.give_up(now, id, Refusal::Cancelled).is_some());
                }
                _ => {}
            }
            while let Some(id) = level.next(now) {
                waiting.retain(|other| *other != id);
                running.push(id);
            }
            let held: usize = running.iter().map(|id| level.job(*id).unwrap().seats).sum();
            prop_assert_eq!((level.in_use(), level.executing(), level.waiting()), (held, running.len(), waiting.len()));
            prop_assert!(held <= limit || running.len() == 1);
            prop_assert!(waiting.is_empty() || !running.is_empty(), "somebody waits for nothing");
        }
        for id in running {
            level.finish(1_000_000, id);
        }
        while let Some(id) = level.next(1_000_000) {
            level.finish(1_000_000, id);
        }
        prop_assert_eq!((level.in_use(), level.waiting(), level.queues().count()), (0, 0, 0));
    }
}
