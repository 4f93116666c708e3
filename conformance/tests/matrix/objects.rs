//! What every version of kubectl does with objects: make, read in every form, change in every way, delete.

use crate::{contains_all, each_kubectl};
use anyhow::{Context, ensure};
use gantry_conformance::{Background, Cluster, Kubectl};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

pub fn kubectl_keeps_objects(cluster: &Cluster) -> anyhow::Result<()> {
    each_kubectl(cluster, "objects", |kubectl, minor| {
        finds_its_way(kubectl, minor)?;
        makes(kubectl)?;
        applies(kubectl)?;
        reads(kubectl)?;
        changes(kubectl)?;
        watches(kubectl)?;
        deletes(kubectl)
    })
}

fn finds_its_way(kubectl: &Kubectl, minor: u32) -> anyhow::Result<()> {
    let version = kubectl.run(&["version"], "")?;
    contains_all(&version.out, &[&format!("Client Version: v1.{minor}."), "Server Version: v1.35."])?;
    ensure!(!version.err.contains("WARNING"), "one version of difference is fine: {}", version.err);
    contains_all(&kubectl.ok(&["api-versions"])?, &["apps/v1\n", "autoscaling/v2\n", "\nv1\n"])?;
    let resources = kubectl.ok(&["api-resources", "--namespaced=false", "--verbs=list,create"])?;
    contains_all(
        &resources,
        &["persistentvolumes", "pv ", "customresourcedefinitions", "crd,crds", "PersistentVolume"],
    )?;
    let explained = kubectl.ok(&["explain", "horizontalpodautoscaler.spec.behavior.scaleUp"])?;
    contains_all(&explained, &["VERSION:    v2", "stabilizationWindowSeconds", "FIELDS:"])?;
    ensure!(kubectl.ok(&["get", "--raw", "/readyz"])? == "ok", "get --raw");
    contains_all(&kubectl.ok(&["cluster-info"])?, &["control plane", "is running at"])
}

/// The generators of kubectl: each makes a manifest of its own and sends it.
fn makes(kubectl: &Kubectl) -> anyhow::Result<()> {
    for line in [
        "configmap made --from-literal=k=v --from-literal=other=x",
        "secret generic made --from-literal=p=q",
        "secret tls --dry-run=client nothing --cert=/dev/null --key=/dev/null",
        "serviceaccount made",
        "role made --verb=get,list --resource=pods,deployments.apps",
        "rolebinding made --role=made --serviceaccount=default:made",
        "service clusterip made --tcp=80:8080",
        "service nodeport node-made --tcp=80",
        "ingress made --rule=made.example.test/*=made:80",
        "poddisruptionbudget made --selector=app=made --min-available=1",
        "quota made --hard=pods=50,configmaps=40",
        "cronjob made --image=testbed --schedule=@daily -- /testbed echo",
        "deployment made --image=docker.io/library/testbed:local --replicas=0 --port=8080",
    ] {
        let words: Vec<_> = std::iter::once("create").chain(line.split(' ')).collect();
        let said = kubectl.run(&words, "")?;
        if line.contains("dry-run") {
            ensure!(said.code == 1 && said.err.contains("tls"), "an empty key pair is none: {said:?}");
        } else {
            ensure!(said.code == 0 && said.out.ends_with("created\n"), "create {line}: {said:?}");
        }
    }
    let again = kubectl.fails(&["create", "configmap", "made"], "")?;
    contains_all(&again, &["configmaps \"made\" already exists"])?;
    let generated = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: some-}}";
    contains_all(&kubectl.ok_with(&["create", "-f", "-"], generated)?, &["configmap/some-", "created"])
}

fn manifest(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n  labels: {{set: applied}}\ndata: {{k: '{value}'}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata:\n  name: applied\n  labels: {{set: applied}}\nspec:\n  ports: [{{port: 80}}]\n"
    )
}

fn applies(kubectl: &Kubectl) -> anyhow::Result<()> {
    ensure!(kubectl.apply(&manifest("1"))?.matches("created").count() == 2, "apply creates");
    ensure!(kubectl.apply(&manifest("1"))?.matches("unchanged").count() == 2, "apply of the same changes nothing");
    let diff = kubectl.run(&["diff", "-f", "-"], &manifest("2"))?;
    ensure!(diff.code == 1 && diff.out.contains("+  k: \"2\""), "{diff:?}");
    let dry = kubectl.ok_with(&["apply", "--dry-run=server", "-f", "-"], &manifest("2"))?;
    contains_all(&dry, &["configmap/applied configured (server dry run)", "service/applied unchanged"])?;
    contains_all(&kubectl.apply(&manifest("2"))?, &["configmap/applied configured", "service/applied unchanged"])?;
    let last = kubectl.ok(&["apply", "view-last-applied", "configmap/applied"])?;
    contains_all(&last, &["k: \"2\""])?;
    let server = ["apply", "--server-side", "--field-manager=suite", "-f", "-"];
    let conflict = kubectl.fails(&server, &manifest("3"))?;
    contains_all(&conflict, &["conflict with \"kubectl-client-side-apply\"", ".data.k", "--force-conflicts"])?;
    let forced = [&server[..], &["--force-conflicts"]].concat();
    contains_all(&kubectl.ok_with(&forced, &manifest("3"))?, &["configmap/applied serverside-applied"])?;
    let typo = manifest("4").replace("\ndata:", "\ndota:");
    contains_all(&kubectl.fails(&["apply", "-f", "-"], &typo)?, &["unknown field \"dota\""])?;
    let prune = ["apply", "--prune", "-l", "set=applied", "--prune-allowlist=core/v1/Service", "-f", "-"];
    let alone = manifest("3").split("---").next().context("the first")?.to_owned();
    contains_all(&kubectl.ok_with(&prune, &alone)?, &["service/applied pruned"])
}

fn reads(kubectl: &Kubectl) -> anyhow::Result<()> {
    contains_all(&kubectl.ok(&["get", "configmaps"])?, &["NAME", "DATA", "AGE", "made", "2 "])?;
    contains_all(&kubectl.ok(&["get", "deploy", "made", "-o", "wide"])?, &["0/0", "CONTAINERS", "IMAGES", "app=made"])?;
    contains_all(
        &kubectl.ok(&["get", "ing,pdb,quota,cj", "--show-labels"])?,
        &["made.example.test", "@daily", "pods: 0/50"],
    )?;
    contains_all(&kubectl.ok(&["get", "secret", "made", "-o", "yaml"])?, &["p: cQ==", "type: Opaque", "kind: Secret"])?;
    ensure!(kubectl.json(&["get", "service", "made"])?["spec"]["ports"][0]["targetPort"] == 8080, "-o json");
    ensure!(kubectl.ok(&["get", "cm/made", "-o", "name"])? == "configmap/made\n", "-o name");
    let template = "go-template={{range .items}}{{.metadata.name}} {{end}}";
    contains_all(&kubectl.ok(&["get", "services", "-o", template])?, &["made ", "node-made "])?;
    let columns = ["get", "services", "-o", "custom-columns=N:.metadata.name,T:.spec.type", "--sort-by=.metadata.name"];
    let words = kubectl.ok(&columns)?;
    let words: Vec<_> = words.split_whitespace().collect();
    ensure!(words == ["N", "T", "made", "ClusterIP", "node-made", "NodePort"], "{words:?}");
    let paged = kubectl.ok(&["get", "configmaps", "--chunk-size=1", "-o", "name"])?;
    ensure!(paged.lines().count() >= 4, "four configmaps in pages of one: {paged}");
    let selected = ["get", "cm,svc", "-l", "set in (applied),!x", "--field-selector=metadata.name!=made", "-o", "name"];
    ensure!(kubectl.ok(&selected)? == "configmap/applied\n", "selectors");
    ensure!(kubectl.ok(&["get", "namespaces", "-A", "-o", "name"])?.contains("namespace/kube-system"), "-A");
    let described = kubectl.ok(&["describe", "deployment,role,ingress,quota", "made"])?;
    contains_all(&described, &["StrategyType:", "deployments.apps", "made.example.test", "configmaps"])?;
    contains_all(&kubectl.fails(&["get", "configmap", "none"], "")?, &["(NotFound)", "configmaps \"none\" not found"])?;
    contains_all(&kubectl.fails(&["get", "nonsense"], "")?, &["doesn't have a resource type \"nonsense\""])
}

fn changes(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.ok(&["label", "configmap", "made", "tier=front"])?;
    contains_all(&kubectl.fails(&["label", "configmap", "made", "tier=back"], "")?, &["--overwrite"])?;
    kubectl.ok(&["label", "configmap", "--all", "tier=back", "--overwrite"])?;
    kubectl.ok(&["annotate", "configmap", "made", "note=one two"])?;
    for (kind, patch) in [
        ("merge", r#"{"data":{"other":null,"m":"1"}}"#),
        ("json", r#"[{"op":"test","path":"/data/m","value":"1"},{"op":"add","path":"/data/j","value":"2"}]"#),
        ("strategic", r#"{"data":{"s":"3"}}"#),
    ] {
        kubectl.ok(&["patch", "configmap", "made", &format!("--type={kind}"), "-p", patch])?;
    }
    ensure!(kubectl.path(&["cm", "made"], ".data")? == r#"{"j":"2","k":"v","m":"1","s":"3"}"#, "three patches");
    kubectl.ok(&[
        "patch",
        "deployment",
        "made",
        "--subresource=scale",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":0}}"#,
    ])?;
    let mut edit = kubectl.command(&["edit", "configmap", "made"]);
    let edit = Background::start(edit.env("KUBE_EDITOR", "sed -i s/one.two/three/"))?.end()?;
    ensure!(edit.0.success() && edit.1.contains("edited"), "{edit:?}");
    ensure!(kubectl.path(&["cm", "made"], ".metadata.annotations.note")? == "three", "edited");
    let text = kubectl.ok(&["get", "cm", "made", "-o", "yaml"])?;
    contains_all(&kubectl.ok_with(&["replace", "-f", "-"], &text.replace("k: v", "k: w"))?, &["replaced"])?;
    let stale = kubectl.fails(&["replace", "-f", "-"], &text)?;
    contains_all(&stale, &["(Conflict)", "the object has been modified"])?;
    contains_all(&kubectl.ok_with(&["replace", "--force", "-f", "-"], &text)?, &["deleted", "replaced"])?;
    kubectl
        .ok(&["set", "data", "configmap", "made", "k=z"])
        .or_else(|_| kubectl.ok(&["patch", "configmap", "made", "-p", r#"{"data":{"k":"z"}}"#]))?;
    ensure!(kubectl.path(&["cm", "made"], ".data.k")? == "z", "the last change");
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#;
    kubectl.ok(&["patch", "ingress", "made", "--subresource=status", "--type=merge", "-p", status])?;
    contains_all(&kubectl.ok(&["get", "ingress", "made"])?, &["192.0.2.1"])
}

fn watches(kubectl: &Kubectl) -> anyhow::Result<()> {
    let arguments = ["get", "configmaps", "-w", "--output-watch-events", "--field-selector=metadata.name=watched"];
    let mut watch = Background::start(&mut kubectl.command(&arguments))?;
    kubectl.ok(&["create", "configmap", "watched"])?;
    watch.line("ADDED", SOON)?;
    kubectl.ok(&["label", "configmap", "watched", "seen=yes"])?;
    watch.line("MODIFIED", SOON)?;
    let wait = ["wait", "--for=delete", "configmap/watched", "--timeout=30s"];
    let wait = Background::start(&mut kubectl.command(&wait))?;
    kubectl.ok(&["delete", "configmap", "watched"])?;
    watch.line("DELETED", SOON)?;
    let (status, said) = wait.end()?;
    // It may have begun to wait when the object was gone, and says so then.
    ensure!(status.success() || said.contains("not found"), "{said}");
    Ok(())
}

fn deletes(kubectl: &Kubectl) -> anyhow::Result<()> {
    contains_all(&kubectl.ok(&["delete", "configmap", "made", "--dry-run=server"])?, &["(server dry run)"])?;
    contains_all(&kubectl.ok(&["delete", "ing,pdb,cj,deploy,svc", "--all"])?, &["cronjob.batch \"made\" deleted"])?;
    contains_all(
        &kubectl.ok(&["delete", "configmap", "-l", "tier=back"])?,
        &["\"made\" deleted", "\"applied\" deleted"],
    )?;
    contains_all(&kubectl.fails(&["delete", "configmap", "made"], "")?, &["(NotFound)"])?;
    ensure!(kubectl.ok(&["delete", "configmap", "made", "--ignore-not-found"])?.is_empty(), "--ignore-not-found");
    Ok(())
}
