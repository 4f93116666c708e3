//! Starts pods by asking the container runtime directly, with the requests that the agent makes: what a machine's
//! runtime does without an orchestrator, as the peer in benchmarks. Says `running` once all run, and removes them when
//! its input ends.

use gantry_kubelet::api::Pod;
use gantry_kubelet::build::{Machine, container, sandbox};
use gantry_kubelet::config::Config;
use gantry_kubelet::runtime::{CriRuntime, ImageSeen, Runtime};
use std::error::Error;
use std::path::Path;

const USAGE: &str = "usage: cri_starts SOCKET CGROUP_PARENT COUNT";
const IMAGE: &str = "docker.io/library/testbed:local";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, cgroup_parent, count] = arguments.as_slice() else { return Err(USAGE.into()) };
    let count: usize = count.parse()?;
    let runtime = CriRuntime::new(socket);
    let image = runtime.image(IMAGE).await?.ok_or("the testbed image is not imported")?;
    let logs = tempfile::tempdir()?;
    let settings =
        Config { cgroup_root: cgroup_parent.clone(), log_root: Some(logs.path().into()), ..Config::default() };
    let starts = (0..count).map(|number| start(&runtime, &image, &settings, number));
    let sandboxes = futures::future::try_join_all(starts).await?;
    println!("running");
    std::io::read_to_string(std::io::stdin())?;
    for id in sandboxes {
        runtime.stop_sandbox(&id).await?;
        runtime.remove_sandbox(&id).await?;
    }
    Ok(())
}

/// The id of the sandbox of one running pod.
async fn start(
    runtime: &CriRuntime,
    image: &ImageSeen,
    settings: &Config,
    number: usize,
) -> Result<String, Box<dyn Error>> {
    let name = format!("bare-{}-{number}", std::process::id());
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "namespace": "bare", "uid": name},
        "spec": {"containers": [{"name": "c", "image": IMAGE, "command": ["/testbed", "sleep"]}]}
    }))?;
    let machine = Machine::new(settings);
    let of_sandbox = sandbox::config(&pod, 0, &machine, settings);
    let inputs = container::Inputs {
        pod: &pod,
        container: &pod.spec.containers[0],
        attempt: 0,
        image,
        env: vec![],
        mounts: vec![],
        message_file: String::new(),
        target_id: None,
    };
    let of_container = container::config(inputs, &machine)?;
    std::fs::create_dir_all(Path::new(&of_sandbox.log_directory).join("c"))?;
    let id = runtime.run_sandbox(of_sandbox.clone(), "").await?;
    let created = runtime.create_container(&id, of_container, of_sandbox).await?;
    runtime.start_container(&created).await?;
    Ok(id)
}
