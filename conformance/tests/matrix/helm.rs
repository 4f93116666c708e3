//! Helm 3 and Helm 4 with the three charts of `conformance/charts`: installing, testing, upgrading, failing, going back,
//! uninstalling. It asserts what a release's objects are; what they do is other suites' affair.

use crate::{contains_all, side_by_side};
use anyhow::{Context, ensure};
use gantry_conformance::{Background, Cluster, Kubectl, tools, wait_for};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const MAJORS: [u32; 2] = [3, 4];
const SOON: Duration = Duration::from_secs(60);

/// One version of Helm, bound to one namespace.
struct Helm {
    major: u32,
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    namespace: String,
    kubectl: Kubectl,
}

impl Helm {
    fn new(cluster: &Cluster, major: u32, area: &str) -> anyhow::Result<Self> {
        let namespace = format!("{area}-helm{major}");
        Ok(Self {
            major,
            binary: tools::tool(&format!("helm-{major}"))?,
            kubeconfig: cluster.data_dir().join("kubeconfig"),
            home: cluster.data_dir().with_file_name(format!("helm{major}")),
            kubectl: cluster.kubectl.within(&namespace),
            namespace,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        command
            .args(["-n", &self.namespace])
            .args(line.split(' ').map(|word| word.strip_prefix("chart:").map_or_else(|| word.to_owned(), chart)));
        command
    }

    /// All that a run said, which must succeed or must not.
    fn run(&self, line: &str, must_succeed: bool) -> anyhow::Result<String> {
        let (status, said) = Background::start(&mut self.command(line))?.end()?;
        ensure!(status.success() == must_succeed, "helm {line}: {status}\n{said}");
        Ok(said)
    }

    fn ok(&self, line: &str) -> anyhow::Result<String> {
        self.run(line, true)
    }

    fn fails(&self, line: &str) -> anyhow::Result<String> {
        self.run(line, false)
    }

    fn deployed(&self, release: &str, revision: u32) -> anyhow::Result<()> {
        let said = self.ok(&format!("status {release}"))?;
        contains_all(&said, &["STATUS: deployed", &format!("REVISION: {revision}")])
    }
}

fn chart(name: &str) -> String {
    tools::repository().join("conformance/charts").join(name).display().to_string()
}

pub fn a_web_application(cluster: &Cluster) -> anyhow::Result<()> {
    side_by_side(&MAJORS, |&major| {
        let helm = Helm::new(cluster, major, "web")?;
        web_is_installed(&helm)?;
        web_changes(&helm)?;
        web_goes_back(&helm)?;
        helm.ok("uninstall shop --wait --timeout 60s")?;
        let rest = "deploy,svc,ing,hpa,pdb,netpol,sa,role,rolebinding,cm";
        let left = helm.kubectl.ok(&["get", rest, "-l", "app.kubernetes.io/instance=shop", "-o", "name"])?;
        ensure!(left.is_empty(), "uninstalled, but there is still {left}");
        ensure!(!helm.ok("list")?.contains("shop"), "no release");
        helm.kubectl.ok(&["delete", "namespace", &helm.namespace, "--wait=false"]).map(drop)
    })
}

fn web_is_installed(helm: &Helm) -> anyhow::Result<()> {
    let said = helm.ok("install shop chart:web --create-namespace --wait --timeout 90s")?;
    contains_all(&said, &["STATUS: deployed", "Hello from https://web.example.test/"])?;
    let kubectl = &helm.kubectl;
    ensure!(kubectl.ok(&["logs", "job/shop-web-pre-install"])? == "prepared 1\n", "the hook ran before");
    let ready = kubectl.path(&["deploy"], ".items[*].status.availableReplicas")?;
    ensure!(ready == "1 1", "--wait ends when both deployments are available: {ready}");
    for kind in
        ["service", "ingress", "hpa", "pdb", "networkpolicy", "serviceaccount", "role", "rolebinding", "configmap"]
    {
        kubectl.ok(&["get", kind, "shop-web"])?;
    }
    kubectl.ok(&["get", "service,deploy", "shop-cache"])?;
    contains_all(&helm.fails("install shop chart:web")?, &["cannot re"])?;
    contains_all(&helm.ok("get manifest shop")?, &["kind: Ingress", "charts/cache/templates/cache.yaml"])?;
    contains_all(&helm.ok("get hooks shop")?, &["helm.sh/hook: pre-install", "helm.sh/hook: test"])?;
    let tested = helm.ok("test shop --logs --timeout 60s")?;
    contains_all(&tested, &["Succeeded", "Hello"])
}

fn web_changes(helm: &Helm) -> anyhow::Result<()> {
    let dry = helm.ok("upgrade shop chart:web --set greeting=Never --dry-run=server")?;
    contains_all(&dry, &["GREETING: \"Never\""])?;
    helm.ok("upgrade shop chart:web --set greeting=Bye,cache.enabled=false --wait --timeout 90s")?;
    helm.deployed("shop", 2)?;
    let kubectl = &helm.kubectl;
    wait_for("the hook after the upgrade", SOON, || {
        let said = kubectl.ok(&["logs", "job/shop-web-post-upgrade"])?;
        ensure!(said == "migrated 2\n", "{said}");
        Ok(())
    })?;
    contains_all(&kubectl.ok(&["exec", "deploy/shop-web", "--", "/testbed", "env"])?, &["GREETING=Bye"])?;
    contains_all(&kubectl.fails(&["get", "deploy", "shop-cache"], "")?, &["NotFound"])?;
    contains_all(&helm.ok("get values shop")?, &["greeting: Bye"])
}

fn web_goes_back(helm: &Helm) -> anyhow::Result<()> {
    let broken = "upgrade shop chart:web --set image=docker.io/library/none:never --no-hooks --wait --timeout 3s";
    helm.fails(broken)?;
    contains_all(&helm.ok("status shop")?, &["STATUS: failed"])?;
    helm.ok("rollback shop 1 --wait --timeout 90s")?;
    helm.deployed("shop", 4)?;
    helm.kubectl.ok(&["get", "deploy", "shop-cache"])?;
    let image = ".spec.template.spec.containers[0].image";
    ensure!(helm.kubectl.path(&["deploy", "shop-web"], image)? == "docker.io/library/testbed:local", "the old image");
    ensure!(helm.kubectl.path(&["cm", "shop-web"], ".data.GREETING")? == "Hello", "the old configuration");
    contains_all(&helm.ok("history shop")?, &["Install complete", "failed", "Rollback to 1"])
}

pub fn a_database(cluster: &Cluster) -> anyhow::Result<()> {
    side_by_side(&MAJORS, |&major| {
        let helm = Helm::new(cluster, major, "database")?;
        let line = "install store chart:database --create-namespace --wait --timeout 90s";
        let install = Background::start(&mut helm.command(line))?;
        stands_in_for_a_controller(&helm.kubectl)?;
        let (status, said) = install.end()?;
        ensure!(status.success(), "{said}");
        helm.deployed("store", 1)?;
        let kubectl = &helm.kubectl;
        let claims =
            kubectl.path(&["statefulset", "store-database"], ".spec.volumeClaimTemplates[0].spec.volumeMode")?;
        ensure!(claims == "Filesystem", "the claim has its defaults: {claims}");
        ensure!(kubectl.path(&["service", "store-database-headless"], ".spec.clusterIP")? == "None", "headless");
        let password = kubectl.path(&["secret", "store-database"], ".data.password")?;
        helm.ok("upgrade store chart:database --set replicas=3")?;
        ensure!(kubectl.path(&["secret", "store-database"], ".data.password")? == password, "the password is kept");
        ensure!(kubectl.path(&["statefulset", "store-database"], ".spec.replicas")? == "3", "three replicas");
        let refused = helm.fails("upgrade store chart:database --set persistence.size=2Gi")?;
        contains_all(
            &refused,
            &["updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template'"],
        )?;
        helm.ok("rollback store 1")?;
        ensure!(kubectl.path(&["statefulset", "store-database"], ".spec.replicas")? == "2", "two again");
        helm.ok("uninstall store --wait --timeout 60s")?;
        helm.kubectl.ok(&["delete", "namespace", &helm.namespace, "--wait=false"]).map(drop)
    })
}

/// Nothing acts on StatefulSets yet, so the case writes the status that Helm waits for.
/// FIXME: it fails on purpose once a controller does.
fn stands_in_for_a_controller(kubectl: &Kubectl) -> anyhow::Result<()> {
    let set = ["statefulset", "store-database"];
    wait_for("the StatefulSet", SOON, || kubectl.ok(&["get", set[0], set[1]]))?;
    let status = r#"{"status":{"observedGeneration":1,"replicas":2,"readyReplicas":2,"availableReplicas":2,"currentReplicas":2,
        "updatedReplicas":2,"currentRevision":"one","updateRevision":"one"}}"#;
    let patch = ["patch", set[0], set[1], "--subresource=status", "--type=merge", "-p", status];
    kubectl.ok(&patch)?;
    let pods = kubectl.ok(&["get", "pods", "-o", "name"])?;
    ensure!(pods.is_empty(), "StatefulSets have a controller now: drop this stand-in ({pods})");
    Ok(())
}

/// One after the other: both want to install the same definition.
pub fn an_operator(cluster: &Cluster) -> anyhow::Result<()> {
    for major in MAJORS {
        let helm = Helm::new(cluster, major, "operator")?;
        operator(&helm).with_context(|| format!("Helm {}", helm.major))?;
    }
    Ok(())
}

fn operator(helm: &Helm) -> anyhow::Result<()> {
    let (kubectl, definition) = (&helm.kubectl, "servicemonitors.monitoring.example.test");
    helm.ok("install watch chart:operator --create-namespace --wait --timeout 90s")?;
    contains_all(&kubectl.ok(&["get", "smon"])?, &["INTERVAL", "watch-operator", "30s"])?;
    let path = kubectl.path(&["smon", "watch-operator"], ".spec.endpoints[0].path")?;
    ensure!(path == "/metrics", "the schema's default: {path:?}");
    let refused = helm.fails("upgrade watch chart:operator --set interval=often")?;
    contains_all(&refused, &["spec.endpoints[0].interval", "should match '^[0-9]+[smh]$'"])?;
    helm.ok("upgrade watch chart:operator --set interval=10s --wait --timeout 60s")?;
    ensure!(kubectl.path(&["smon", "watch-operator"], ".spec.endpoints[0].interval")? == "10s", "upgraded");
    let account = format!("--as=system:serviceaccount:{}:watch-operator", helm.namespace);
    ensure!(
        kubectl.run(&["auth", "can-i", "patch", "smon/status", "-A", &account], "")?.out.trim() == "yes" || {
            kubectl.run(&["auth", "can-i", "patch", "smon", "--subresource=status", "-A", &account], "")?.out.trim()
                == "yes"
        },
        "the operator's account may write the status"
    );
    ensure!(kubectl.path(&["clusterrole", "edit"], ".rules[*].resources")?.contains("servicemonitors"), "aggregated");
    contains_all(&kubectl.ok(&["get", "all"])?, &["servicemonitor.monitoring.example.test/watch-operator"])?;
    helm.ok("uninstall watch --wait --timeout 60s")?;
    kubectl.ok(&["get", "crd", definition]).context("crds/ outlives its release")?;
    kubectl.ok(&["delete", "crd", definition, "--timeout=60s"])?;
    contains_all(&kubectl.fails(&["get", "crd", definition], "")?, &["(NotFound)"])?;
    kubectl.ok(&["delete", "namespace", &helm.namespace, "--wait=false"]).map(drop)
}
