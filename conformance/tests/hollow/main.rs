//! The end-to-end suite of hollow machines: a control plane in one process, fifty machines in another, and the real kubectl. Cases run
//! in the order of the table; each uses pods of its own.

mod machines;
mod pods;

use gantry_conformance::{Rehearsal, case};
use std::process::ExitCode;

const MACHINES: usize = 50;

/// Pods come and go quickly, and two kinds of machines are there.
const PROFILE: &str = "
name: hollow
zones: 2
racksPerZone: 5
classes:
- {name: plain, share: 4, cpu: 8, memory: 32Gi}
- {name: gpu, share: 1, cpu: 16, memory: 64Gi, gpus: {count: 4}}
pods:
  startup: {min: 50ms, max: 200ms}
  lifetime: {min: 500ms, max: 2s}
  stopping: {min: 20ms, max: 100ms}
";

fn main() -> anyhow::Result<ExitCode> {
    let cases = [
        case!(machines::fifty_register_and_keep_their_leases),
        case!(machines::their_identity_may_do_no_more_than_agents),
        case!(machines::a_deleted_machine_comes_back),
        case!(machines::a_wrong_profile_is_told_by_its_field),
        case!(pods::they_run_become_ready_and_finish),
        case!(pods::they_fail_on_demand),
        case!(pods::they_stop_and_go_when_they_are_deleted),
        case!(pods::reports_pause_and_go_on),
        case!(pods::they_run_on_when_the_process_is_killed),
        case!(machines::each_may_watch_for_itself),
        case!(pods::a_drawn_workload_runs_to_its_end),
    ];
    Rehearsal::main(PROFILE, MACHINES, &cases)
}
