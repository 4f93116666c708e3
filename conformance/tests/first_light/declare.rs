//! Declare a service, get running pods: the demo's way from a manifest to answers over the Service's address and name.

use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, http_get, namespace, tools, wait_for};
use std::collections::BTreeSet;
use std::time::Duration;

pub const NAMESPACE: &str = "demo";

/// A name of a Ready web pod of the demo.
pub fn web_pod(cluster: &Cluster) -> anyhow::Result<String> {
    let names = cluster.kubectl.within(NAMESPACE).path(&["pods", "-l", "app=web"], ".items[*].metadata.name")?;
    names.split_whitespace().next().map(str::to_owned).context("the demo has no web pod")
}

pub fn demo_from_manifest_to_answers(cluster: &Cluster) -> anyhow::Result<()> {
    let folder = tools::repository().join("conformance/demo");
    cluster.kubectl.ok(&["apply", "-f", folder.to_str().context("the path of the demo")?])?;
    let demo = cluster.kubectl.within(NAMESPACE);
    demo.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    demo.ok(&["wait", "--for=condition=complete", "job/tasks", "--timeout=90s"])?;
    ensure!(demo.path(&["job", "tasks"], ".status.succeeded")? == "10", "ten tasks succeed");

    let address = demo.path(&["service", "web"], ".spec.clusterIP")?;
    let mut hosts = BTreeSet::new();
    wait_for("an answer of each of the three replicas through the virtual IP", Duration::from_secs(15), || {
        hosts.insert(http_get(&address, 80, "/hostname")?);
        ensure!(hosts.len() == 3, "answers only from {hosts:?}");
        Ok(())
    })?;
    let pod = web_pod(cluster)?;
    for name in ["web", "web.demo", "web.demo.svc", "web.demo.svc.cluster.local"] {
        let answer = demo.ok(&["exec", &pod, "--", "/testbed", "fetch", &format!("http://{name}/")])?;
        ensure!(answer.contains("Hello from Gantry"), "{name} answers {answer:?}");
    }
    let again = cluster.kubectl.ok(&["apply", "-f", folder.to_str().context("the path of the demo")?])?;
    ensure!(
        again.lines().filter(|line| !line.contains("secret/")).all(|line| line.ends_with("unchanged")),
        "a second apply changes nothing:\n{again}"
    );
    Ok(())
}

pub fn configuration_reaches_the_containers(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = web_pod(cluster)?;
    let environment = demo.ok(&["exec", &pod, "--", "/testbed", "env"])?;
    for line in ["GREETING=Hello from Gantry", "TOKEN=not-really-secret", &format!("POD_NAME={pod}")] {
        ensure!(environment.lines().any(|found| found == line), "{line} is missing in:\n{environment}");
    }
    for (file, expect) in [
        ("/etc/web/GREETING", "Hello from Gantry"),
        ("/etc/web/motd.txt", "The same ConfigMap, as a file.\n"),
        ("/etc/web-secret/token", "not-really-secret"),
    ] {
        let found = demo.ok(&["exec", &pod, "--", "/testbed", "cat", file])?;
        ensure!(found == expect, "{file} holds {found:?}");
    }
    demo.ok(&["patch", "configmap", "web", "--type=merge", "-p", r#"{"data":{"motd.txt":"changed\n"}}"#])?;
    wait_for("the mounted file to follow the ConfigMap", Duration::from_secs(90), || {
        let found = demo.ok(&["exec", &pod, "--", "/testbed", "cat", "/etc/web/motd.txt"])?;
        ensure!(found == "changed\n", "it still holds {found:?}");
        Ok(())
    })
}

pub fn containers_stay_inside_their_limits(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = web_pod(cluster)?;
    let uid = demo.path(&["pod", &pod], ".metadata.uid")?;
    let root = cluster.cgroup_root();
    let (file, unlimited) = if std::path::Path::new("/sys/fs/cgroup/memory").is_dir() {
        (format!("/sys/fs/cgroup/memory{root}/burstable/pod{uid}/memory.limit_in_bytes"), "9223372036854771712")
    } else {
        (format!("/sys/fs/cgroup{root}/burstable/pod{uid}/memory.max"), "max")
    };
    let limit = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    ensure!(
        limit.trim() == (64u64 << 20).to_string(),
        "{file}: {limit:?}, not 64 MiB (unlimited would be {unlimited})"
    );
    Ok(())
}

pub fn a_service_account_token_is_mounted_and_works(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = web_pod(cluster)?;
    let folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    let token = demo.ok(&["exec", &pod, "--", "/testbed", "cat", &format!("{folder}/token")])?;
    let namespace = demo.ok(&["exec", &pod, "--", "/testbed", "cat", &format!("{folder}/namespace")])?;
    ensure!(namespace == NAMESPACE, "the mounted namespace is {namespace:?}");
    let said = demo.ok(&["auth", "whoami", "--token", &token, "-o", "json"]);
    // With a client certificate in the kubeconfig, the certificate would win: kubectl then needs a bare kubeconfig.
    let who = match said {
        Ok(text) if text.contains("system:serviceaccount:demo:default") => text,
        _ => whoami_by_token(cluster, &token)?,
    };
    ensure!(who.contains("system:serviceaccount:demo:default"), "the token's owner is {who}");
    Ok(())
}

fn whoami_by_token(cluster: &Cluster, token: &str) -> anyhow::Result<String> {
    let server = cluster.kubectl.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let authority = cluster.kubectl.ok(&[
        "config",
        "view",
        "--raw",
        "-o",
        "jsonpath={.clusters[0].cluster.certificate-authority-data}",
    ])?;
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: '{authority}'}}}}]\n\
         users: [{{name: u, user: {{token: '{token}'}}}}]\n"
    );
    let home = tempfile::tempdir()?;
    let path = home.path().join("kubeconfig");
    std::fs::write(&path, config)?;
    gantry_conformance::Kubectl::new(&path, home.path())?.ok(&["auth", "whoami", "-o", "json"])
}

/// Stays until the end of the suite: taking the cluster down has to take the port away too.
pub fn a_host_port_leads_to_its_pod(cluster: &Cluster) -> anyhow::Result<()> {
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "host-port"}, "spec": {"containers": [{
        "name": "web", "image": "docker.io/library/testbed:local", "command": ["/testbed", "serve", "--port", "8080"],
        "ports": [{"containerPort": 8080, "hostPort": 18080}]}]}}"#;
    cluster.kubectl.apply(pod)?;
    wait_for("the machine's port to answer", Duration::from_secs(30), || {
        let said = http_get(namespace::NODE_IP, 18080, "/hostname")?;
        ensure!(said == "host-port\n", "{said:?}");
        Ok(())
    })
}
