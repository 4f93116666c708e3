//! The end-to-end suite of the skeleton: one cluster of the built binary, driven by kubectl 1.35.2, kube-rs and the Python
//! client, on real containers. Cases run in the order of the table; later ones may crash the cluster and bring it back.

mod bad_input;
mod clients;
mod declare;
mod detached;
mod failures;
mod kubectl_reads;
mod kubectl_writes;
mod rollouts;
mod stores;
mod strangers;
mod streams;
mod survival;

use anyhow::Context;
use gantry_conformance::{Cluster, ClusterOptions, Kind, case, namespace, runner, traces};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    namespace::enter()?;
    let before = traces::traces()?;
    let store = Kind::chosen()?;
    let cluster = Cluster::start(ClusterOptions { store, ..ClusterOptions::default() })?;
    let mut cases = vec![
        case!(declare::demo_from_manifest_to_answers),
        case!(declare::configuration_reaches_the_containers),
        case!(declare::containers_stay_inside_their_limits),
        case!(declare::a_service_account_token_is_mounted_and_works),
        case!(declare::a_host_port_leads_to_its_pod),
        case!(kubectl_reads::every_output_format),
        case!(kubectl_reads::selectors_and_all_namespaces),
        case!(kubectl_reads::watch_sees_changes),
        case!(kubectl_reads::describe_tells_the_story),
        case!(kubectl_reads::logs_of_all_kinds),
        case!(kubectl_reads::exec_with_and_without_terminal),
        case!(kubectl_reads::discovery_commands),
        case!(streams::commands_by_websocket_and_spdy),
        case!(streams::attach_reaches_a_waiting_program),
        case!(streams::ports_are_forwarded_by_websocket_and_spdy),
        case!(streams::pods_services_and_nodes_are_proxied),
        case!(streams::spdy_by_hand),
        case!(kubectl_writes::create_label_annotate_delete),
        case!(kubectl_writes::a_list_in_one_file),
        case!(kubectl_writes::all_patch_types),
        case!(kubectl_writes::server_side_apply_conflicts_are_named),
        case!(kubectl_writes::edit_in_place),
        case!(kubectl_writes::delete_policies),
        case!(kubectl_writes::grace_period_is_kept),
        case!(kubectl_writes::namespaces_end_with_all_they_hold),
        case!(rollouts::update_pause_resume_undo),
        case!(rollouts::scale_and_wait),
        case!(rollouts::recreate_never_overlaps),
        case!(rollouts::daemon_set_runs_and_rolls),
        case!(rollouts::job_outcomes),
        case!(clients::kube_rs_lists_watches_creates_and_patches),
        case!(clients::python_lists_watches_creates_and_patches),
        case!(bad_input::every_mistake_gets_its_status),
        case!(bad_input::nobody_anonymous_gets_in),
        case!(failures::an_exit_restarts_in_place_with_back_off),
        case!(failures::failed_readiness_leaves_the_endpoints),
        case!(failures::failed_liveness_restarts),
        case!(failures::a_bad_image_says_so),
        case!(failures::a_pod_that_fits_nowhere_says_why),
        case!(failures::out_of_memory_says_so),
        case!(survival::names_resolve_and_pods_live_while_the_process_is_dead),
        case!(survival::an_emptied_store_kills_nothing),
        case!(strangers::a_directory_of_somebody_else_is_left_alone),
        case!(detached::a_detached_cluster_survives_kill_and_stop),
    ];
    if store != Kind::Embedded {
        // What starts clusters of its own does not use these stores.
        cases.retain(|case| !case.name.starts_with("detached") && !case.name.starts_with("strangers"));
        cases.insert(cases.len() / 2, case!(stores::the_leaders_die));
    }
    let passed = runner::run(&cluster, &cases, |cluster| eprintln!("{}", cluster.story()));
    cluster.down()?;
    traces::nothing_left(&before).context("after gantry down")?;
    println!("gantry down left nothing behind");
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
