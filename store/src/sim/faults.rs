//! What goes wrong, and when.

use super::dice;
use super::network::Weather;
use super::world::{Death, World};
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn pause(from_ms: u64, to_ms: u64) {
    tokio::time::sleep(Duration::from_millis(dice::between(from_ms, to_ms))).await;
}

/// Does harm until `world` is over. Every fault ends before the next begins, but what it left behind does not.
pub async fn run(world: &World) {
    while !world.over() {
        pause(100, 1_500).await;
        world.sample();
        let member = dice::between(1, 4);
        match dice::below(100) {
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
                for member in 1..=3 {
                    world.kill(member, Death::Power);
                }
                pause(0, 1_000).await;
                for member in 1..=3 {
                    world.start(member).await;
                }
            }
            42..56 => isolate(world, world.leader().filter(|_| dice::percent(70)).unwrap_or(member)).await,
            56..62 => {
                world.network.cut(member, member % 3 + 1);
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
        for other in (1..=3).filter(|other| *other != member) {
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
    for other in (1..=3).filter(|other| *other != member) {
        world.network.cut(member, other);
        if deaf {
            world.network.cut(other, member);
        }
    }
    pause(500, 7_000).await;
    world.network.mend();
}
