//! The end-to-end suite of separate roles: three members of every store group, two API servers, schedulers and controllers,
//! and three machines in network namespaces, on real containers. Cases run in the order of the table; each puts back
//! what it took away.

mod etcdctl;
mod losses;
mod together;

use anyhow::Context;
use gantry_conformance::{Fleet, case, namespace, runner, traces};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    namespace::enter()?;
    let before = traces::traces()?;
    let fleet = Fleet::start()?;
    let cases = [
        case!(together::machines_join_through_either_api_server),
        case!(together::a_service_spans_the_machines),
        case!(together::what_one_api_server_writes_the_other_reads_at_once),
        case!(together::one_of_two_creators_wins),
        case!(etcdctl::it_reads_and_writes_through_every_member),
        case!(etcdctl::it_watches_and_holds_leases),
        case!(etcdctl::it_sees_the_members_agree),
        case!(etcdctl::a_member_alone_compacts_saves_and_hands_over),
        case!(losses::a_store_machine_dies_and_comes_back),
        case!(losses::without_a_majority_nothing_is_written_and_everything_runs),
        case!(losses::an_api_server_dies_and_comes_back),
        case!(losses::the_leading_loops_die_and_others_take_over),
        case!(losses::a_machine_is_cut_off_and_comes_back),
    ];
    let passed = runner::run(&fleet, &cases, |fleet| eprintln!("{}", fleet.tails(8)));
    fleet.down()?;
    drop(fleet);
    traces::nothing_left(&before).context("after gantry down on every machine")?;
    println!("gantry down left nothing behind on any machine");
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
