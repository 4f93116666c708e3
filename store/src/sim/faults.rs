//! What goes wrong, and when.

use super::clients::Client;
use super::network::Weather;
use super::world::{Death, Finding, World};
use super::{changes, dice, loss, with};
use crate::api::{Op, RangeRequest, Store, StoreError, Txn};
use crate::group::Group;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub async fn pause(from_ms: u64, to_ms: u64) {
    tokio::time::sleep(Duration::from_millis(dice::between(from_ms, to_ms))).await;
}

/// Does harm until `world` is over. Every fault ends before the next begins, but what it left behind does not.
pub async fn run(world: &Arc<World>) {
    while !world.over() {
        pause(100, 1_500).await;
        world.sample();
        let member = world.some_member();
        match dice::below(150) {
            0..12 => revive(world, member, Death::Process).await,
            12..22 => revive(world, member, Death::Power).await,
            22..34 => {
                let death = if dice::percent(50) { Death::Power } else { Death::Process };
                world.die_soon(member, death).await;
                pause(0, 2_000).await;
                world.start(member).await;
            }
            34..42 => {
                // A power cut of the whole house.
                for member in world.ids() {
                    world.kill(member, Death::Power);
                }
                pause(0, 1_000).await;
                for member in world.ids() {
                    world.start(member).await;
                }
            }
            42..56 => isolate(world, world.leader().filter(|_| dice::percent(70)).unwrap_or(member)).await,
            56..62 => {
                let others = world.others(member);
                world.network.cut(member, others[dice::below(others.len() as u64) as usize]);
                pause(500, 5_000).await;
                world.network.mend();
            }
            62..74 => {
                world.network.weather(Weather {
                    lost: dice::below(25),
                    doubled: dice::below(20),
                    late: dice::below(50),
                    late_ms: dice::between(1, 900),
                });
                pause(500, 5_000).await;
                world.network.mend();
            }
            74..82 => {
                let stall_ms = world.stall_ms(member);
                stall_ms.store(dice::between(50, 2_000), Ordering::Relaxed);
                pause(500, 4_000).await;
                stall_ms.store(0, Ordering::Relaxed);
            }
            100..112 => {
                let members = world.ids().len();
                if members == changes::FEWEST || (members < changes::MOST && dice::percent(50)) {
                    changes::grow(world).await;
                } else {
                    changes::shrink(world, member).await;
                }
            }
            112..120 => changes::replace(world, member).await,
            120..130 => fill(world, member).await,
            130..140 => changes::move_lead(world).await,
            140..150 => loss::lose(world, member).await,
            _ => {
                snapshot(world, member).await;
                // What is wrong with it shows only in who goes on from it.
                if dice::percent(50) {
                    pause(0, 1_000).await;
                    revive(world, member, Death::Process).await;
                }
            }
        }
    }
}

/// Kills a member and starts it again, sometimes after the others have let go of the log that it lacks.
async fn revive(world: &World, member: u64, death: Death) {
    world.kill(member, death);
    pause(0, 4_000).await;
    if dice::percent(30) {
        for other in world.others(member) {
            snapshot(world, other).await;
        }
    }
    world.start(member).await;
}

/// Lets a member write a snapshot, which lets the log before it go.
async fn snapshot(world: &World, member: u64) {
    if let Some((group, _)) = world.group(member) {
        // One that is refused is as good as none.
        let _ = group.snapshot().await;
    }
}

/// Cuts a member off from both others, in one direction at least.
async fn isolate(world: &World, member: u64) {
    let deaf = dice::percent(70);
    for other in world.others(member) {
        world.network.cut(member, other);
        if deaf {
            world.network.cut(other, member);
        }
    }
    pause(500, 9_000).await;
    world.network.mend();
}

/// How long a member may take to serve, and to find space that there is again.
const SERVES: Duration = Duration::from_secs(30);
const FULL_DISK_CLIENT: usize = 1_001;

/// A disk without space, for a while: the member refuses writes, answers reads of its own, and the others go on without it.
/// Afterwards it takes writes again.
async fn fill(world: &Arc<World>, member: u64) {
    world.fill(member, true);
    pause(500, 5_000).await;
    if let Some((group, _)) = world.group(member).filter(|(group, _)| group.handle().is_full()) {
        with(|context| context.full_disks += 1);
        if let Err(what) = refuses(&group).await {
            world.find(Finding::FullDisk { member, what });
        }
        go_on_without(world, member).await;
    }
    if dice::percent(30) {
        revive(world, member, if dice::percent(50) { Death::Power } else { Death::Process }).await;
    }
    world.fill(member, false);
    let Some((group, _)) = world.group(member) else { return };
    let end = tokio::time::Instant::now() + SERVES;
    while group.handle().is_full() {
        if tokio::time::Instant::now() >= end {
            return world.find(Finding::FullDisk { member, what: "it does not see that there is space again".into() });
        }
        pause(100, 200).await;
    }
}

/// A member without space may be behind, so it answers reads for itself only.
async fn refuses(group: &Group) -> Result<(), String> {
    let range = RangeRequest { serializable: true, ..RangeRequest::prefix("k") };
    group.range(range).await.map_err(|error| format!("it answers a read with {error:?}"))?;
    let write = group.txn(Txn { success: vec![Op::put("refused", "")], ..Txn::default() }).await;
    match write {
        Err(StoreError::DiskFull { .. }) => Ok(()),
        other => Err(format!("it answers a write with {other:?}")),
    }
}

async fn go_on_without(world: &Arc<World>, full: u64) {
    let configurations: Vec<_> = world.groups().iter().flat_map(|group| group.handle().configurations()).collect();
    let Some(other) = who_goes_on(&configurations, full) else { return };
    let mut client = Client::new(world.clone(), FULL_DISK_CLIENT);
    let end = tokio::time::Instant::now() + SERVES;
    while let Err(what) = client.writes(other).await {
        if tokio::time::Instant::now() >= end {
            let said: Vec<_> = world.groups().iter().map(Group::raft_says).collect();
            return world.find(Finding::FullDisk { member: full, what: format!("{what}: {said:#?}") });
        }
        pause(100, 200).await;
    }
}

/// A member that takes writes while `full` does not. Nobody, if two decide, as after a removal whose fate was not known: it
/// takes both of them. Members may know different configurations; all have to allow it.
pub fn who_goes_on(configurations: &[BTreeSet<u64>], full: u64) -> Option<u64> {
    // One that was just added knows none.
    let mut known = configurations.iter().filter(|voters| !voters.is_empty());
    if known.clone().any(|voters| voters.contains(&full) && voters.len() < 3) {
        return None;
    }
    let first = known.next()?;
    first.iter().copied().find(|id| *id != full && known.clone().all(|voters| voters.contains(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_decide_do_not_go_on_without_each_other() {
        let voters = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(who_goes_on(&[voters(&[1, 2, 3])], 1), Some(2));
        assert_eq!(who_goes_on(&[voters(&[1, 2, 3])], 2), Some(1));
        assert_eq!(who_goes_on(&[voters(&[1, 2])], 1), None);
        assert_eq!(who_goes_on(&[voters(&[1, 2])], 3), Some(1), "it decides nothing");
        assert_eq!(who_goes_on(&[voters(&[1, 2, 3]), voters(&[1, 2])], 1), None, "3 has not heard that it is gone");
        assert_eq!(who_goes_on(&[voters(&[1, 2, 3, 4]), voters(&[2, 3, 4]), voters(&[])], 2), Some(3), "1 is gone");
        assert_eq!(who_goes_on(&[voters(&[])], 1), None);
    }
}
