//! One fault each, after which what goes on must serve within a bounded time: the clock is virtual, so the bounds do not
//! depend on the machine.

use super::clients::Client;
use super::world::{World, stage};
use crate::api::{Op, RangeRequest, Store, StoreError, Txn};
use crate::group::{Ended, Group};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Longer than an election takes, and than a deposed leader is waited for after it.
const SOON: Duration = Duration::from_secs(3);
const AT_ONCE: Duration = Duration::from_secs(1);

async fn write(group: &Group) -> Result<(), StoreError> {
    group.txn(Txn { success: vec![Op::put("scene", "")], ..Txn::default() }).await.map(drop)
}

/// A world at rest with a leader, and its number.
async fn begin() -> (Arc<World>, u64) {
    let world = World::begun(8 << 10).await;
    let led = async {
        loop {
            if let Some(leader) = world.leader()
                && Client::new(world.clone(), 0).writes(leader).await.is_ok()
            {
                return leader;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let leader = timeout(Duration::from_secs(20), led).await.expect("a leader is elected");
    (world, leader)
}

fn group(world: &World, member: u64) -> Group {
    world.group(member).expect("it runs").0
}

/// What the others were asked when the leader fell silent ends soon, and what they are asked then is done at once.
#[test]
fn a_silent_leader_holds_nobody_up() {
    for seed in 1..=5 {
        stage(seed, None, async {
            let (world, leader) = begin().await;
            for other in world.others(leader) {
                world.network.cut(leader, other);
                world.network.cut(other, leader);
            }
            let mut tasks = tokio::task::JoinSet::new();
            for other in world.others(leader) {
                for at in 0..6 {
                    let group = group(&world, other);
                    tasks.spawn(async move {
                        sleep(Duration::from_millis(at * 200)).await;
                        timeout(SOON, group.range(RangeRequest::key("scene")))
                            .await
                            .expect("a read ends soon")
                            .unwrap();
                    });
                    let group = self::group(&world, other);
                    tasks.spawn(async move {
                        sleep(Duration::from_millis(at * 200)).await;
                        let written = timeout(SOON, write(&group)).await.expect("a write ends soon");
                        assert!(matches!(written, Ok(()) | Err(StoreError::Unknown(_))), "{written:?}");
                    });
                }
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
            for other in world.others(leader) {
                let group = group(&world, other);
                timeout(AT_ONCE, write(&group)).await.expect("a write is done at once").unwrap();
                timeout(AT_ONCE, group.range(RangeRequest::key("scene"))).await.expect("so is a read").unwrap();
            }
        });
    }
}

/// A member that hears nobody says that nobody leads, whatever it was told last; also one that led.
#[test]
fn who_is_cut_off_knows_no_leader() {
    stage(1, None, async {
        let (world, leader) = begin().await;
        assert_eq!(group(&world, leader).handle().leader(), Some(leader));
        let follower = world.others(leader)[0];
        for cut_off in [follower, leader] {
            for other in world.others(cut_off) {
                world.network.cut(cut_off, other);
                world.network.cut(other, cut_off);
            }
            let group = group(&world, cut_off);
            timeout(SOON * 2, group.handle().leaderless()).await.expect("it notices soon");
            assert_eq!(group.handle().leader(), None);
            world.network.mend();
            let heard = async {
                while group.handle().leader().is_none() {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(SOON, heard).await.expect("and that somebody leads again");
        }
    });
}

/// A member whose disk fails leads and answers no more, and says why; the others go on.
#[test]
fn a_member_whose_disk_fails_ends() {
    for seed in 1..=5 {
        stage(seed, None, async {
            let (world, leader) = begin().await;
            let group = group(&world, leader);
            world.break_disk(leader);
            let asked = timeout(SOON * 5, write(&group)).await.expect("it answers");
            assert!(asked.is_err(), "{asked:?}");
            let ended = timeout(SOON, group.ended()).await.expect("it ends soon");
            assert!(matches!(ended, Ended::Failed { member, .. } if member == leader), "{ended:?}");
            assert!(!group.is_leader());
            assert!(matches!(write(&group).await, Err(StoreError::Unavailable(_))));
            assert!(group.range(RangeRequest::key("scene")).await.is_err());
            world.kill(leader, super::world::Death::Process);
            let other = world.others(leader)[0];
            let done = async {
                let mut client = Client::new(world.clone(), 1);
                while client.writes(other).await.is_err() {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(SOON * 2, done).await.expect("the others go on");
        });
    }
}
