//! The end-to-end suite of `gantry explain` and `gantry fits`: a control plane, six hollow machines, and pods that wait for a reason
//! each. Cases run in the order of the table, each with pods of its own; the last one takes the machines away.

mod asking;
mod fits;
mod machines;
mod others;
mod rights;
mod room;

use asking::{MACHINES, PROFILE};
use gantry_conformance::{Rehearsal, case};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let cases = [
        case!(machines::none_has_the_label_of_the_selector),
        case!(machines::none_matches_the_affinity),
        case!(machines::a_taint_is_not_tolerated),
        case!(machines::none_has_the_device),
        case!(machines::a_host_port_is_taken),
        case!(room::short_of_cpu),
        case!(room::the_reserve_of_a_zone),
        case!(room::nobody_of_lower_priority),
        case!(room::its_policy_is_never),
        case!(room::those_that_make_way_still_end),
        case!(others::pods_to_be_apart_from),
        case!(others::pods_to_be_near_to_do_not_exist),
        case!(others::spread_would_be_too_uneven),
        case!(others::no_machine_has_the_key_of_the_spread),
        case!(others::a_claim),
        case!(others::a_gang_that_is_incomplete),
        case!(others::a_gang_that_is_too_large),
        case!(others::gates),
        case!(others::another_scheduler),
        case!(others::one_that_has_its_machine),
        case!(others::one_that_does_not_exist),
        case!(fits::replicas_of_a_deployment),
        case!(fits::what_a_manifest_may_be),
        case!(rights::viewers_may_ask_and_see_nothing_else),
        case!(rights::kubectl_has_it_as_a_plugin),
        case!(machines::all_are_cordoned),
        case!(rights::nobody_answers),
        case!(machines::there_is_none),
    ];
    Rehearsal::main(PROFILE, MACHINES, &cases)
}
