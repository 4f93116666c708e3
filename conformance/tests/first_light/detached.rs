//! A cluster started as `make up` starts it: in the background, watched by its guard. It survives `kill -9` without anyone's
//! help, and `gantry down` and `gantry up` bring its objects back to life.

use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kubectl, Machine, tools, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::Duration;

/// A machine beside the suite's own cluster, with a cluster of its own on it.
struct Other {
    folder: tempfile::TempDir,
    machine: Machine,
}

impl Other {
    fn up(&self) -> anyhow::Result<String> {
        let mut command = self.machine.gantry("up")?;
        command.args(["--detach", "--node-ip", &self.machine.ip, "--node-name", &self.machine.name]);
        command.args(["--cgroup-root", &self.machine.cgroup_root(), "--dns-upstream", "none"]);
        let output = command.output().context("gantry up did not start")?;
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "gantry up --detach: {}\n{said}{error}", output.status);
        Ok(said.into_owned())
    }

    /// From outside its namespace, under the machine's address, which its certificate names.
    fn kubectl(&self) -> anyhow::Result<Kubectl> {
        let own = std::fs::read_to_string(self.data_dir().join("kubeconfig")).context("the cluster's kubeconfig")?;
        let path = self.folder.path().join("kubeconfig");
        std::fs::write(&path, own.replace("127.0.0.1", &self.machine.ip))?;
        Kubectl::new(&path, self.folder.path())
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.folder.path().join(&self.machine.name)
    }

    fn pid(&self) -> anyhow::Result<u32> {
        let text = std::fs::read_to_string(self.data_dir().join("run/gantry.pid"))?;
        let pid = text.trim().parse().with_context(|| format!("{text:?} in gantry.pid"))?;
        ensure!(
            Path::new(&format!("/proc/{pid}/fd")).read_dir().is_ok_and(|mut fds| fds.next().is_some()),
            "{pid} ended"
        );
        Ok(pid)
    }
}

fn containers(kubectl: &Kubectl) -> anyhow::Result<String> {
    let demo = kubectl.within("demo");
    demo.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    demo.path(
        &["pods", "-l", "app=web"],
        "range .items[*]}{.metadata.name} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{\"\\n\"}{end",
    )
}

pub fn a_detached_cluster_survives_kill_and_stop(_: &Cluster) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder for the cluster")?;
    let machine = Machine::new(1, folder.path())?;
    let other = Other { folder, machine };
    other.machine.build_images()?;
    let outcome = kill_and_stop(&other);
    let down = other.machine.down();
    outcome.and(down)
}

fn kill_and_stop(other: &Other) -> anyhow::Result<()> {
    let said = other.up()?;
    ensure!(said.contains("export KUBECONFIG="), "it says how to reach it: {said}");
    let first = other.pid()?;
    let kubectl = other.kubectl()?;
    let demo = tools::repository().join("conformance/demo");
    kubectl.ok(&["apply", "-f", demo.to_str().context("the path of the demo")?])?;
    let before = containers(&kubectl)?;
    ensure!(before.lines().count() == 3, "{before}");

    // Started by this suite through `gantry up --detach`, whose pid file names it.
    let process = Pid::from_raw(i32::try_from(first)?).context("a process id is not 0")?;
    kill_process(process, Signal::KILL).with_context(|| format!("kill -9 {first}"))?;
    wait_for("the guard to start it again", Duration::from_secs(30), || {
        let now = other.pid()?;
        ensure!(now != first, "still {first}");
        kubectl.ok(&["get", "--raw", "/readyz"])
    })?;
    wait_for("the same containers", Duration::from_secs(30), || {
        let after = containers(&kubectl)?;
        ensure!(after == before, "{before} became {after}");
        Ok(())
    })?;
    let again = other.up()?;
    ensure!(again.contains("is Ready"), "a second `gantry up --detach` is harmless: {again}");

    finished(&kubectl)?;
    let stopped = other.machine.gantry("down")?.output()?;
    ensure!(stopped.status.success(), "gantry down: {}", String::from_utf8_lossy(&stopped.stderr));
    ensure!(other.pid().is_err(), "the guard does not start again what was stopped on purpose");
    other.up()?;
    // The pods are the same objects with new containers; the finished task stays finished.
    let names =
        |text: &str| text.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect::<Vec<_>>();
    wait_for("the pods to run again", Duration::from_secs(60), || {
        let after = containers(&kubectl)?;
        ensure!(names(&after) == names(&before), "{before} became {after}");
        Ok(())
    })?;
    finished(&kubectl)
}

/// Waits for the Job of the demo. If it does not finish, the error tells what became of it and of its pods.
fn finished(kubectl: &Kubectl) -> anyhow::Result<()> {
    let demo = kubectl.within("demo");
    let waited = demo.ok(&["wait", "--for=condition=Complete", "job/tasks", "--timeout=90s"]);
    waited.map(drop).map_err(|error| {
        let job = demo.ok(&["get", "job/tasks", "-o", "jsonpath={.status}"]).unwrap_or_default();
        let pods = demo.ok(&["get", "pods", "-l", "app=tasks", "-o", "yaml"]).unwrap_or_default();
        error.context(format!("the Job: {job}\nits pods: {pods}"))
    })
}
