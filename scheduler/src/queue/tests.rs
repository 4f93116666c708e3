//! The order of the queue, what wakes whom, and how long.

use serde_json::json;

use super::*;
use crate::class::{Class, Classes};
use crate::plugins::Wake;
use crate::plugins::testing::{Cluster, changed, pod};
use crate::schedule::Unschedulable;

fn with(name: &str, priority: i64, created_us: i64) -> Arc<PodInfo> {
    let info = changed(pod("ns", name, "", "", json!({})), |spec| spec.priority = priority);
    Arc::new(PodInfo { created_us, ..info })
}

fn put(queue: &mut Queue, name: &str, priority: i64, created_us: i64, team: TeamId) {
    queue.put(with(name, priority, created_us), Band::Ordinary, team);
}

fn take(queue: &mut Queue, now_ms: u64) -> Option<String> {
    queue.take(now_ms).map(|info| info.name.to_string())
}

fn class() -> Arc<Class> {
    let mut cluster = Cluster::default();
    let info = cluster.snapshot.adopt(pod("ns", "p", "", "", json!({})));
    Classes::default().of(&mut cluster.snapshot, &info, "")
}

fn sleep(queue: &mut Queue, class: &Arc<Class>, uid: &str, now_ms: u64) {
    let none = Arc::new(Unschedulable { wake_on: Wake::MACHINE, ..Unschedulable::default() });
    queue.found(Found { class: class.clone(), none, message: "none".into() }, now_ms);
    queue.sleep(uid, class.id, None, now_ms);
}

#[test]
fn priority_then_age() {
    let mut queue = Queue::default();
    for (name, priority, created) in [("young", 0, 9), ("old", 0, 3), ("urgent", 5, 20)] {
        put(&mut queue, name, priority, created, 0);
    }
    let order: Vec<String> = std::iter::from_fn(|| take(&mut queue, 0)).collect();
    assert_eq!(order, ["urgent", "old", "young"]);
    assert_eq!((queue.len(), queue.depths().taken), (3, 3), "they are taken, not gone");
}

#[test]
fn the_team_that_has_least_goes_first() {
    let mut queue = Queue::default();
    for at in 0..3 {
        put(&mut queue, &format!("a{at}"), 0, at, 1);
        put(&mut queue, &format!("b{at}"), 0, 10 + at, 2);
    }
    queue.charge(1, 0.5);
    queue.charge(2, 0.3);
    let mut order = Vec::new();
    let mut shares = [0.5, 0.3];
    while let Some(name) = take(&mut queue, 0) {
        let team = usize::from(name.starts_with('b'));
        shares[team] += 0.22;
        queue.charge(team + 1, shares[team]);
        order.push(name);
    }
    assert_eq!(order, ["b0", "a0", "b1", "a1", "b2", "a2"]);
}

#[test]
fn the_oldest_of_a_band_is_not_forgotten() {
    let mut queue = Queue::default();
    put(&mut queue, "poor", -5, 0, 0);
    for at in 0..20 {
        put(&mut queue, &format!("rich{at}"), 5, 100 + at, 0);
    }
    let order: Vec<String> = std::iter::from_fn(|| take(&mut queue, 0)).take(8).collect();
    assert_eq!(order.last().map(String::as_str), Some("poor"), "one turn in eight is the oldest's");
    let mut queue = Queue::default();
    queue.put(with("batch", -5, 0), Band::Batch, 0);
    for at in 0..20 {
        queue.put(with(&format!("rich{at}"), 5, 100 + at), Band::Production, 0);
    }
    let order: Vec<String> = std::iter::from_fn(|| take(&mut queue, 0)).collect();
    assert_eq!(order.last().map(String::as_str), Some("batch"), "but never before another band");
}

#[test]
fn sleepers_wake_after_their_back_off() {
    let mut queue = Queue::default();
    let class = class();
    put(&mut queue, "p", 0, 0, 0);
    assert_eq!(take(&mut queue, 1_000).as_deref(), Some("p"));
    sleep(&mut queue, &class, "p", 1_000);
    assert_eq!((take(&mut queue, 5_000), queue.depths().sleeping), (None, 1));
    queue.wake_class(class.id, 1_040);
    assert_eq!((take(&mut queue, 1_099), queue.next_due_ms()), (None, Some(1_100)));
    assert_eq!(take(&mut queue, 1_100).as_deref(), Some("p"));
    sleep(&mut queue, &class, "p", 1_100);
    assert_eq!(queue.next_due_ms(), Some(301_100));
    assert_eq!(take(&mut queue, 301_100).as_deref(), Some("p"), "everything is tried again now and then");
}

#[test]
fn a_few_of_a_class_wake_at_once() {
    let mut queue = Queue::default();
    let class = class();
    for at in 0..40 {
        put(&mut queue, &format!("p{at:02}"), 0, at, 0);
        take(&mut queue, 0);
        sleep(&mut queue, &class, &format!("p{at:02}"), 0);
    }
    queue.wake_class(class.id, 10_000);
    assert_eq!((queue.depths().ready, queue.depths().sleeping), (16, 24));
    assert_eq!(take(&mut queue, 10_000).as_deref(), Some("p00"), "the oldest");
}

#[test]
fn a_change_wakes_and_the_same_again_does_not() {
    let mut queue = Queue::default();
    let class = class();
    put(&mut queue, "p", 0, 0, 0);
    take(&mut queue, 0);
    sleep(&mut queue, &class, "p", 0);
    put(&mut queue, "p", 0, 0, 0);
    assert_eq!(take(&mut queue, 0), None);
    put(&mut queue, "p", 7, 0, 0);
    assert_eq!(take(&mut queue, 0).as_deref(), Some("p"));
    put(&mut queue, "p", 8, 0, 0);
    assert_eq!(take(&mut queue, 0), None, "a taken one stays taken");
    queue.again("p");
    assert_eq!(take(&mut queue, 0).as_deref(), Some("p"));
    queue.remove("p");
    assert!(queue.is_empty() && queue.next_due_ms().is_none() && !queue.has_ready());
}

#[test]
fn retries_back_off() {
    let mut queue = Queue::default();
    put(&mut queue, "p", 0, 0, 0);
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..9 {
        take(&mut queue, now).unwrap();
        queue.retry("p", now);
        let due = queue.next_due_ms().unwrap();
        waits.push(due - now);
        now = due;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
}
