//! Two schedulers and one Lease: the leader is killed, or sleeps for longer than its Lease and wakes up believing that it still leads.

#![expect(clippy::disallowed_methods, reason = "a person wants to see how long it took")]

use crate::arena::{Arena, IP, PATIENCE, Server};
use crate::crowd::{Crowd, drawn, pod};
use crate::record::{Change, Record, What};
use crate::replay;
use anyhow::{Context, ensure};
use gantry_apimachinery::time::MicroTime;
use gantry_conformance::{wait_for, wait_until};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a Lease lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(4);
/// The standby is to lead this long after the leader's death.
const TAKEN_OVER: Duration = Duration::from_secs(5);
/// What its two requests, a read and a write of the Lease, may take at a server that is busy with the burst.
const BUSY: Duration = Duration::from_secs(2);

/// Who leads, and since when.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Lease {
    holder_identity: String,
    acquire_time: MicroTime,
    renew_time: MicroTime,
    lease_transitions: u32,
}

fn lease(arena: &Arena) -> anyhow::Result<Lease> {
    let lease: Value = arena.kubectl.json(&["get", "lease", "kube-scheduler", "-n", "kube-system"])?;
    let lease: Lease = serde_json::from_value(lease["spec"].clone())?;
    ensure!(!lease.holder_identity.is_empty(), "nobody leads");
    Ok(lease)
}

/// Starts the first and lets it lead, then the other one.
fn pair(arena: &Arena) -> anyhow::Result<Lease> {
    let before = lease(arena).ok();
    arena.start_scheduler("one", Server::Steady, &[])?;
    let leads = wait_for("the first scheduler to lead", PATIENCE, || {
        let now = lease(arena)?;
        ensure!(before.as_ref().is_none_or(|before| before.holder_identity != now.holder_identity), "not yet");
        Ok(now)
    })?;
    arena.start_scheduler("two", Server::Mortal, &[])?;
    Ok(leads)
}

fn burst(crowd: &Crowd<'_>, name: &str, count: usize) -> anyhow::Result<()> {
    crowd.create((0..count).map(|n| pod(&format!("{name}-{n}"), 200 + 10 * drawn(n, 15))))
}

/// When pods were bound after a moment, in order.
fn binds_after(changes: &[Change], moment: Instant) -> Vec<Duration> {
    let mut known = std::collections::HashSet::new();
    let mut binds = Vec::new();
    for change in changes {
        if let What::Pod(pod) = &change.what
            && !pod.node.is_empty()
            && known.insert(pod.uid.clone())
            && change.seen > moment
        {
            binds.push(change.seen - moment);
        }
    }
    binds.sort();
    binds
}

/// The first bind after the longest silence: the new leader's. Those before it were on their way when the old one died.
fn first_after_silence(binds: &[Duration]) -> Option<Duration> {
    let mut before = Duration::ZERO;
    let silences = binds.iter().map(|bind| (*bind - std::mem::replace(&mut before, *bind), *bind));
    silences.max().map(|(_, bind)| bind)
}

/// A process of its own shows its numbers to who may see them.
pub fn metrics_are_shown_to_who_may_see_them(arena: &Arena) -> anyhow::Result<()> {
    let address = format!("{IP}:10259");
    let file = |name: &str| arena.path(&format!("control/pki/{name}")).to_string_lossy().into_owned();
    let (cert, key, ca) = (file("apiserver.crt"), file("apiserver.key"), file("ca.crt"));
    let files = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
    arena.start_scheduler("shown", Server::Steady, &[&["--metrics-listen", &*address][..], &files].concat())?;
    let server = format!("https://{address}");
    let looks = look_at_metrics(arena, &["--server", &*server, "get", "--raw", "/metrics"]);
    // Whatever came of it: the next cases' schedulers are to lead.
    arena.kill("shown")?;
    looks
}

fn look_at_metrics(arena: &Arena, get: &[&str]) -> anyhow::Result<()> {
    wait_for("its metrics", PATIENCE, || {
        let text = arena.kubectl.ok(get)?;
        for name in ["gantry_scheduler_bound_total", "gantry_informer_lists_total{kind=\"pods\"}"] {
            ensure!(text.contains(name), "{name} is not in\n{text}");
        }
        Ok(())
    })?;
    let identity = arena.path("scheduler-steady").to_string_lossy().into_owned();
    let refused = arena.kubectl.fails(&[&["--kubeconfig", &*identity], get].concat(), "")?;
    ensure!(refused.contains("orbidden"), "a scheduler's identity may not look: {refused}");
    Ok(())
}

pub fn takes_over_when_the_leader_is_killed(arena: &Arena) -> anyhow::Result<()> {
    arena.case("standby", &["one", "two"], |crowd, record| {
        const PODS: usize = 2_000;
        let leads = pair(arena)?;
        let (killed, last, now) = std::thread::scope(|scope| {
            let making = scope.spawn(|| burst(crowd, "p", PODS));
            record.wait_bound(crowd.namespace, PODS / 5)?;
            arena.kill("one")?;
            let killed = Instant::now();
            let last = lease(arena)?;
            // A machine that is starved may lose it again later: what counts is when it first changed hands.
            let now = wait_for("the standby to lead", PATIENCE, || {
                let now = lease(arena)?;
                ensure!(now.holder_identity != last.holder_identity, "{now:?}");
                Ok(now)
            });
            making.join().expect("it does not panic")?;
            anyhow::Ok((killed, last, now?))
        })?;
        ensure!(last.holder_identity == leads.holder_identity, "the first scheduler led: {last:?}");
        record.wait_all_bound(crowd.namespace)?;
        let took = now.acquire_time.0.since(last.renew_time.0);
        ensure!(took >= LEASE, "the Lease was taken {took:?} after its last renewal, before it had run out");
        ensure!(took <= TAKEN_OVER + BUSY, "the Lease was taken {took:?} after its last renewal");
        let changes = record.changes()?;
        let binds = binds_after(&changes, killed);
        let first = first_after_silence(&binds).context("pods were bound after the kill")?;
        let summary = replay::judge(&changes, |_| false)?;
        ensure!(summary.binds == PODS, "{summary:?}");
        println!(
            "    the Lease was taken {took:.2?} after its last renewal, the first pod bound {first:.2?} after the kill"
        );
        println!(
            "    {} of {PODS} pods were bound after it, machines filled to {} %",
            binds.len(),
            summary.fullest_percent
        );
        Ok(())
    })
}

pub fn a_leader_that_slept_does_no_harm(arena: &Arena) -> anyhow::Result<()> {
    arena.case("slept", &["one", "two"], |crowd, record| {
        const PODS: usize = 1_200;
        const SLEEP: Duration = Duration::from_secs(10);
        let leads = pair(arena)?;
        std::thread::scope(|scope| {
            let making = scope.spawn(|| burst(crowd, "before", PODS));
            record.wait_bound(crowd.namespace, PODS / 4)?;
            arena.signal("one", Signal::STOP)?;
            let stopped = Instant::now();
            making.join().expect("it does not panic")?;
            record.wait_all_bound(crowd.namespace)?;
            wait_until("its sleep to be over", SLEEP * 2, || stopped.elapsed() >= SLEEP)?;
            // It wakes up in the middle of a burst.
            let making = scope.spawn(|| burst(crowd, "after", PODS / 2));
            record.wait_bound(crowd.namespace, PODS + PODS / 8)?;
            arena.signal("one", Signal::CONT)?;
            making.join().expect("it does not panic")
        })?;
        record.wait_all_bound(crowd.namespace)?;
        let now = lease(arena)?;
        ensure!(now.holder_identity != leads.holder_identity, "the other one leads: {now:?}");
        ensure!(now.lease_transitions > leads.lease_transitions, "it changed hands: {leads:?}, {now:?}");
        let both = arena.pid("one").and_then(|_| arena.pid("two"));
        both.context("both run on")?;
        // It is a good standby again: the other one gives the Lease back as it ends.
        arena.end("two")?;
        burst(crowd, "last", 20)?;
        record.wait_all_bound(crowd.namespace)?;
        ensure!(lease(arena)?.holder_identity == leads.holder_identity, "it leads again");
        let summary = replay::judge(&record.changes()?, |_| false)?;
        ensure!(summary.binds == PODS + PODS / 2 + 20, "{summary:?}");
        Ok(())
    })
}

/// Waits until somebody leads whom this file did not start.
pub fn one_leads(arena: &Arena, before: &Option<String>) -> anyhow::Result<()> {
    wait_for("a scheduler to lead", PATIENCE, || {
        let now = lease(arena)?.holder_identity;
        ensure!(before.as_ref() != Some(&now), "{now} is the one from before");
        Ok(())
    })
}

/// Who holds the Lease, or held it last.
pub fn holder(arena: &Arena) -> Option<String> {
    lease(arena).ok().map(|lease| lease.holder_identity)
}

/// A burst on one scheduler in whose middle something happens; in the end all are bound, each once, and the last ones are told of.
pub fn survives(crowd: &Crowd<'_>, record: &Record, fault: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    const PODS: usize = 1_200;
    const LAST: usize = 30;
    let arena = crowd.arena;
    let before = holder(arena);
    arena.start_scheduler("only", Server::Mortal, &[])?;
    one_leads(arena, &before)?;
    std::thread::scope(|scope| {
        let making = scope.spawn(|| burst(crowd, "p", PODS));
        record.wait_bound(crowd.namespace, PODS / 4)?;
        let result = fault();
        making.join().expect("it does not panic").and(result)
    })?;
    record.wait_all_bound(crowd.namespace)?;
    burst(crowd, "last", LAST)?;
    record.wait_all_bound(crowd.namespace)?;
    arena.pid("only").context("the scheduler is the same process")?;
    let summary = replay::judge(&record.changes()?, |_| false)?;
    ensure!(summary.binds == PODS + LAST, "{summary:?}");
    told(crowd, LAST, summary.binds)
}

/// Placements are told as Events: each of the last ones, when all is well again, and most of all.
fn told(crowd: &Crowd<'_>, last: usize, all: usize) -> anyhow::Result<()> {
    wait_for("the Events of placement", PATIENCE, || {
        let names = "range .items[*]}{.involvedObject.name}{\"\\n\"}{end";
        let text = crowd.kubectl.path(&["events", "--field-selector", "reason=Scheduled"], names)?;
        let of_last = text.lines().filter(|name| name.starts_with("last-")).count();
        let told = text.lines().count();
        ensure!(of_last == last && told * 2 >= all, "{of_last} of the last {last}, {told} of all {all}");
        println!("    {told} of {all} placements were told as Events");
        Ok(())
    })
}
