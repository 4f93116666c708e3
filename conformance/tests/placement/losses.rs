//! What a burst of pods survives: the death of the scheduler's API server, and of the leaders of the store's groups.

use crate::arena::{Arena, Server};
use crate::standby::survives;

pub fn an_api_server_dies_in_a_burst(arena: &Arena) -> anyhow::Result<()> {
    arena.case("server-dies", &["only"], |crowd, record| {
        survives(crowd, record, || {
            arena.kill_server(Server::Mortal)?;
            arena.start_server(Server::Mortal)?;
            arena.wait_answers(Server::Mortal)
        })
    })
}

pub fn the_stores_leaders_die_in_a_burst(arena: &Arena) -> anyhow::Result<()> {
    arena.case("store-dies", &["only"], |crowd, record| {
        survives(crowd, record, || {
            for group in ["state", "leases", "events"] {
                let leader = arena.stores.kill_leader(group)?;
                arena.stores.start_member(group, leader)?;
            }
            arena.wait_answers(Server::Steady)
        })
    })
}
