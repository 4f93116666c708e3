//! What goes wrong, in an order that follows from the seed: first every kind once, then any of them until the time is over.
//! A fault that was made is undone before the next one, so that a majority can always come back.

use crate::dice::Dice;
use crate::group::{Group, MEMBERS, ON_SMALL_DISK};
use crate::record::Record;
use anyhow::Context;
use gantry_history::Dice as _;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillAny,
    KillLeader,
    KillAll,
    FreezeAny,
    FreezeLeader,
    CutOffAny,
    CutOffLeader,
    LosePackets,
    Replace,
    FillDisk,
}

const KINDS: [Kind; 10] = [
    Kind::KillAny,
    Kind::KillLeader,
    Kind::KillAll,
    Kind::FreezeAny,
    Kind::FreezeLeader,
    Kind::CutOffAny,
    Kind::CutOffLeader,
    Kind::LosePackets,
    Kind::Replace,
    Kind::FillDisk,
];

/// How long a full disk waits to be met: a log has a few MiB of its own.
const MOST_FILLING: Duration = Duration::from_secs(5);

/// Makes faults for `time`, or until every kind was there, whichever is later.
pub async fn run(group: &mut Group, record: &Record, dice: &mut Dice, time: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + time;
    let mut first = KINDS;
    dice.shuffle(&mut first);
    let mut first = first.into_iter();
    loop {
        let kind = match first.next() {
            Some(kind) => kind,
            None if Instant::now() >= end => return Ok(()),
            None => KINDS[dice.below(KINDS.len() as u64) as usize],
        };
        println!("{:6.2} s: {kind:?}", record.moment() as f64 / 1e9);
        make(group, record, dice, kind).await.with_context(|| format!("{kind:?}"))?;
        sleep(Duration::from_millis(dice.between(200, 900))).await;
        for at in 0..MEMBERS {
            group.check_runs(at).with_context(|| format!("after {kind:?}"))?;
        }
    }
}

async fn make(group: &mut Group, record: &Record, dice: &mut Dice, kind: Kind) -> anyhow::Result<()> {
    let leads = match kind {
        Kind::KillLeader | Kind::FreezeLeader | Kind::CutOffLeader => group.leader().await,
        _ => None,
    };
    let at = leads.unwrap_or(dice.below(MEMBERS as u64) as usize);
    match kind {
        Kind::KillAny | Kind::KillLeader => kill(group, dice, &[at]).await,
        Kind::KillAll => kill(group, dice, &[0, 1, 2]).await,
        Kind::FreezeAny | Kind::FreezeLeader => {
            group.freeze(at, true)?;
            last(dice).await;
            group.freeze(at, false)
        }
        Kind::CutOffAny | Kind::CutOffLeader => {
            group.plug(at, false)?;
            last(dice).await;
            group.plug(at, true)
        }
        Kind::LosePackets => {
            let percent = dice.between(5, 40);
            let lossy: Vec<_> = (0..MEMBERS).filter(|other| *other == at || dice.percent(40)).collect();
            lossy.iter().try_for_each(|at| group.lose_packets(*at, percent))?;
            last(dice).await;
            lossy.iter().try_for_each(|at| group.lose_packets(*at, 0))
        }
        Kind::Replace => {
            group.kill(at)?;
            group.replace(at)
        }
        Kind::FillDisk => fill_disk(group, record, dice).await,
    }
}

/// Large values and no space, until the member on the small disk has met its end.
async fn fill_disk(group: &mut Group, record: &Record, dice: &mut Dice) -> anyhow::Result<()> {
    let before = group.disks_met_full();
    record.set_heavy(true);
    group.fill_disk()?;
    let latest = Instant::now() + MOST_FILLING;
    while group.disks_met_full() == before && Instant::now() < latest {
        sleep(Duration::from_millis(50)).await;
    }
    last(dice).await;
    record.set_heavy(false);
    let met = group.disks_met_full() > before;
    println!("          the log {}", if met { "was out of space" } else { "had enough space" });
    let killed = dice.percent(30);
    if killed {
        group.kill(ON_SMALL_DISK)?;
    }
    group.free_disk()?;
    if killed { group.start_member(ON_SMALL_DISK) } else { Ok(()) }
}

/// A fault's time: some are over before an election, some are not.
async fn last(dice: &mut Dice) {
    sleep(Duration::from_millis(dice.between(400, 3_000))).await;
}

/// Ends members and starts them again after a while, sometimes with the remains of a write behind their logs.
async fn kill(group: &mut Group, dice: &mut Dice, members: &[usize]) -> anyhow::Result<()> {
    for at in members {
        group.kill(*at)?;
    }
    sleep(Duration::from_millis(dice.between(0, 1_500))).await;
    for at in members {
        if dice.percent(60) {
            group.tear(*at, dice)?;
        }
        group.start_member(*at)?;
    }
    Ok(())
}
