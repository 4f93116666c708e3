//! The fault suite of placement: schedulers, API servers and members of the store are killed and stopped in the middle of bursts on
//! hollow machines. What every pod was told is recorded from the first event on and judged afterwards: each is bound once, no
//! machine is filled above what it has, no gang is half placed. Cases run in the order of the table.

mod arena;
mod bad_input;
mod crowd;
mod gangs;
mod losses;
mod preemption;
mod record;
mod replay;
mod several;
mod standby;

use arena::Arena;
use gantry_conformance::{case, namespace, runner};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    namespace::enter()?;
    let arena = Arena::start()?;
    let cases = [
        case!(replay::what_must_not_be_is_found),
        case!(standby::metrics_are_shown_to_who_may_see_them),
        case!(standby::takes_over_when_the_leader_is_killed),
        case!(standby::a_leader_that_slept_does_no_harm),
        case!(several::at_once_on_the_same_machines),
        case!(losses::an_api_server_dies_in_a_burst),
        case!(losses::the_stores_leaders_die_in_a_burst),
        case!(gangs::are_whole_whatever_dies),
        case!(preemption::a_restart_keeps_the_room_that_was_made),
        case!(bad_input::impossible_pods_are_told_why),
        case!(bad_input::a_thousand_that_refuse_each_other_cost_nothing),
        case!(bad_input::labels_that_half_of_the_machines_lack),
        case!(bad_input::quantities_beyond_reason),
        case!(bad_input::a_machine_that_shrinks),
        case!(bad_input::an_allocation_edited_by_hand),
    ];
    let passed = runner::run(&arena, &cases, |arena| eprintln!("{}", arena.tails(3)));
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
