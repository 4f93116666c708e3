//! Members that come and go: added, promoted, removed, replaced. Who may is the store's decision; here it is only asked for.

use super::dice;
use super::world::{Death, World};
use crate::api::StoreError;
use crate::group::{ChangeError, Handle};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a change is asked for.
const PATIENCE: Duration = Duration::from_secs(15);
pub const FEWEST: usize = 3;
pub const MOST: usize = 5;

/// Asks whoever leads, until it is done. `None`: it was refused, or its fate is not known. Sometimes the leader dies over it.
pub async fn ask<T>(world: &World, change: impl AsyncFn(&Handle) -> Result<T, ChangeError>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(leader) = world.leader()
            && let Some((group, alive)) = world.group(leader)
        {
            let dies = dice::percent(15);
            let changed = tokio::select! {
                biased;
                () = alive.cancelled() => return None,
                () = sleep(Duration::from_millis(dice::between(1, 40))), if dies => {
                    drop(group);
                    world.kill(leader, if dice::percent(50) { Death::Power } else { Death::Process });
                    sleep(Duration::from_millis(dice::between(1, 2_000))).await;
                    world.start(leader).await;
                    return None;
                }
                changed = change(group.handle()) => changed,
            };
            match changed {
                Ok(done) => return Some(done),
                Err(ChangeError::NotLeader(_) | ChangeError::Behind) => {}
                Err(ChangeError::Store(StoreError::Unavailable(_) | StoreError::DiskFull { .. })) => {}
                Err(_) => return None,
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    None
}

/// Adds a member, which decides once it has caught up.
pub async fn grow(world: &World) {
    // No two members are at one place.
    let address = format!("place-{:x}:1", dice::below(u64::MAX));
    let Some(id) = ask(world, async |leader: &Handle| leader.add_member(&address).await).await else { return };
    world.admit(id).await;
    if dice::percent(30) {
        sleep(Duration::from_millis(dice::between(1, 500))).await;
        world.kill(id, if dice::percent(50) { Death::Power } else { Death::Process });
        sleep(Duration::from_millis(dice::between(1, 1_500))).await;
        world.start(id).await;
    }
    ask(world, async |leader: &Handle| leader.promote_member(id).await).await;
}

/// Removes a member, which may be the leader, and which may go on for a while.
pub async fn shrink(world: &World, member: u64) {
    if ask(world, async |leader: &Handle| leader.remove_member(member).await).await.is_some() {
        sleep(Duration::from_millis(dice::between(1, 3_000))).await;
        world.dismiss(member);
    }
}

/// Hands the lead to another member, and perhaps soon back.
pub async fn move_lead(world: &World) {
    let Some(from) = world.leader() else { return };
    let others = world.others(from);
    let to = others[dice::below(others.len() as u64) as usize];
    ask(world, async |leader: &Handle| leader.move_leader(to).await).await;
    if dice::percent(60) {
        sleep(Duration::from_millis(dice::between(1, 2_500))).await;
        ask(world, async |leader: &Handle| leader.move_leader(from).await).await;
    }
}

/// A member dies with all that it had, and another takes its place.
pub async fn replace(world: &World, member: u64) {
    world.kill(member, Death::Power);
    sleep(Duration::from_millis(dice::between(1, 1_000))).await;
    if ask(world, async |leader: &Handle| leader.remove_member(member).await).await.is_none() {
        // It may still belong to the group: then the group needs it.
        world.start(member).await;
        return;
    }
    world.dismiss(member);
    grow(world).await;
}

/// Finishes what faults left half done: those whom the group knows run and decide, and no others run.
pub async fn settle(world: &World) {
    let Some((leader, _)) = world.leader().and_then(|leader| world.group(leader)) else { return };
    // Only who leads indeed knows who belongs to the group.
    let leads = tokio::time::timeout(Duration::from_secs(5), leader.handle().read_index_here()).await;
    if !matches!(leads, Ok(Ok(_))) {
        return;
    }
    let members = leader.handle().members();
    for member in &members {
        if world.is_refused(member.id) {
            // One whose removal did not come to an end is removed again.
            let _ = leader.handle().remove_member(member.id).await;
            continue;
        }
        world.admit(member.id).await;
        if member.learner {
            // One that is behind is asked again.
            let _ = leader.handle().promote_member(member.id).await;
        }
    }
    for id in world.ids() {
        if !members.iter().any(|member| member.id == id) {
            world.dismiss(id);
        }
    }
}
