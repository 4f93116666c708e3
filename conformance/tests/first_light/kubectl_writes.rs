//! What kubectl writes: create, label, annotate, every patch type, apply, edit and every way to delete.

use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kubectl, wait_for, wait_until};
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// A namespace of its own for one case, deleted in the background afterwards.
pub fn with_namespace(
    cluster: &Cluster,
    name: &str,
    body: impl FnOnce(&Kubectl) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    cluster.kubectl.with_namespace(name, body)
}

/// What `kubectl get -o yaml` writes for several objects: kubectl asks for the v2 document before it sends them.
pub fn a_list_in_one_file(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "lists", |kubectl| {
        let item = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [item("one"), item("two")]}).to_string();
        kubectl.ok_with(&["create", "-f", "-"], &list)?;
        let again = kubectl.ok(&["get", "configmaps", "one", "two", "-o", "yaml"])?;
        ensure!(again.contains("kind: List"), "{again}");
        kubectl.apply(&again)?;
        kubectl.ok_with(&["delete", "-f", "-"], &list).map(drop)
    })
}

pub fn create_label_annotate_delete(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "writes", |kubectl| {
        kubectl.ok(&["create", "configmap", "a", "--from-literal=k=v"])?;
        kubectl.ok(&["create", "secret", "generic", "s", "--from-literal=p=q"])?;
        ensure!(kubectl.path(&["secret", "s"], ".data.p")? == "cQ==", "secret data is base64");
        ensure!(kubectl.fails(&["create", "configmap", "a"], "")?.contains("already exists"), "a second create");
        ensure!(kubectl.ok(&["label", "configmap", "a", "tier=front"])?.contains("labeled"), "label");
        ensure!(kubectl.fails(&["label", "configmap", "a", "tier=back"], "")?.contains("--overwrite"), "no overwrite");
        kubectl.ok(&["label", "configmap", "a", "tier=back", "--overwrite"])?;
        ensure!(kubectl.path(&["configmap", "a"], ".metadata.labels.tier")? == "back", "overwritten");
        kubectl.ok(&["label", "configmap", "a", "tier-"])?;
        ensure!(kubectl.path(&["configmap", "a"], ".metadata.labels")?.is_empty(), "label removed");
        kubectl.ok(&["annotate", "configmap", "a", "note=it works"])?;
        ensure!(kubectl.path(&["configmap", "a"], ".metadata.annotations.note")? == "it works", "annotated");
        let dry = kubectl.ok(&["create", "configmap", "never", "--dry-run=server"])?;
        ensure!(dry.contains("server dry run"), "{dry}");
        ensure!(kubectl.fails(&["get", "configmap", "never"], "")?.contains("NotFound"), "a dry run stores nothing");
        kubectl.ok(&["delete", "configmap", "a"])?;
        ensure!(kubectl.fails(&["delete", "configmap", "a"], "")?.contains("NotFound"), "deleted");
        kubectl.ok(&["delete", "configmap", "a", "--ignore-not-found"])?;
        Ok(())
    })
}

pub fn all_patch_types(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "patches", |kubectl| {
        kubectl.ok(&["create", "deployment", "d", "--image=docker.io/library/testbed:local", "--replicas=0"])?;
        let patch =
            |kind: &str, text: &str| kubectl.ok(&["patch", "deployment", "d", &format!("--type={kind}"), "-p", text]);
        patch("merge", r#"{"metadata":{"labels":{"a":"1","app":null}}}"#)?;
        ensure!(kubectl.path(&["deployment", "d"], ".metadata.labels")? == r#"{"a":"1"}"#, "merge");
        patch(
            "json",
            r#"[{"op":"test","path":"/spec/replicas","value":0},{"op":"add","path":"/metadata/labels/b","value":"2"}]"#,
        )?;
        ensure!(kubectl.path(&["deployment", "d"], ".metadata.labels.b")? == "2", "json");
        patch(
            "strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"docker.io/library/testbed:local"}]}}}}"#,
        )?;
        let names = kubectl.path(&["deployment", "d"], ".spec.template.spec.containers[*].name")?;
        ensure!(names.split(' ').count() == 2, "strategic merges containers by name: {names}");
        patch("strategic", r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","$patch":"delete"}]}}}}"#)?;
        ensure!(
            kubectl.path(&["deployment", "d"], ".spec.template.spec.containers[*].name")? == "testbed",
            "$patch: delete"
        );
        let error = kubectl.fails(
            &["patch", "deployment", "d", "--type=json", "-p", r#"[{"op":"test","path":"/spec/replicas","value":9}]"#],
            "",
        )?;
        ensure!(error.contains("the server rejected our request") || error.contains("test"), "{error}");
        let scaled = kubectl.ok(&[
            "patch",
            "deployment",
            "d",
            "--subresource=scale",
            "--type=merge",
            "-p",
            r#"{"spec":{"replicas":1}}"#,
        ])?;
        ensure!(scaled.contains("patched"), "{scaled}");
        wait_until("one replica", SOON, || {
            kubectl.path(&["deployment", "d"], ".spec.replicas").is_ok_and(|text| text == "1")
        })
    })
}

pub fn server_side_apply_conflicts_are_named(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "applies", |kubectl| {
        let manifest =
            |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{k: '{value}'}}\n");
        let apply = ["apply", "--server-side", "-f", "-"];
        kubectl.ok_with(&apply, &manifest("one"))?;
        let revision = kubectl.path(&["configmap", "c"], ".metadata.resourceVersion")?;
        kubectl.ok_with(&apply, &manifest("one"))?;
        ensure!(
            kubectl.path(&["configmap", "c"], ".metadata.resourceVersion")? == revision,
            "applying the same writes nothing"
        );
        let other = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
        let error = kubectl.fails(&other, &manifest("two"))?;
        ensure!(error.contains("conflict with \"kubectl\"") && error.contains(".data.k"), "{error}");
        kubectl.ok_with(
            &["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-"],
            &manifest("two"),
        )?;
        let managers = kubectl.ok(&[
            "get",
            "configmap",
            "c",
            "--show-managed-fields",
            "-o",
            "jsonpath={.metadata.managedFields[*].manager}",
        ])?;
        ensure!(managers.contains("other"), "{managers}");
        kubectl.ok_with(
            &["apply", "-f", "-"],
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata: {a: '1', b: '2'}\n",
        )?;
        kubectl
            .ok_with(&["apply", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata: {b: '2'}\n")?;
        ensure!(
            kubectl.path(&["configmap", "p"], ".data")? == r#"{"b":"2"}"#,
            "client-side apply removes what the manifest dropped"
        );
        let diff = kubectl
            .run(&["diff", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata: {b: '3'}\n")?;
        ensure!(diff.code == 1 && diff.out.contains("+  b: \"3\""), "{diff:?}");
        Ok(())
    })
}

pub fn edit_in_place(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "edits", |kubectl| {
        kubectl.ok(&["create", "configmap", "e", "--from-literal=word=before"])?;
        let mut command = std::process::Command::new(gantry_conformance::tools::kubectl()?);
        command
            .args(["-n", "edits", "edit", "configmap", "e"])
            .env("KUBECONFIG", cluster.data_dir().join("kubeconfig"));
        let output = command.env("KUBE_EDITOR", "sed -i s/before/after/").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ensure!(kubectl.path(&["configmap", "e"], ".data.word")? == "after", "edited");
        Ok(())
    })
}

const SLEEPERS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers: [{name: c, image: "docker.io/library/testbed:local", command: [/testbed, sleep]}]
"#;

pub fn delete_policies(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "deletes", |kubectl| {
        let names = |kind: &str, app: &str| kubectl.ok(&["get", kind, "-l", &format!("app={app}"), "-o", "name"]);
        for policy in ["background", "foreground", "orphan"] {
            kubectl.apply(&SLEEPERS.replace("NAME", policy))?;
            kubectl.ok(&["rollout", "status", "deployment", policy, "--timeout=40s"])?;
            kubectl.ok(&["delete", "deployment", policy, &format!("--cascade={policy}"), "--timeout=60s"])?;
        }
        wait_until("the dependents of the background deletion to end", Duration::from_secs(60), || {
            names("pods", "background").is_ok_and(|text| text.is_empty())
                && names("replicasets", "background").is_ok_and(|text| text.is_empty())
        })?;
        ensure!(names("replicasets", "foreground")?.is_empty(), "foreground: dependents end before the owner");
        let orphan = names("replicasets", "orphan")?;
        ensure!(orphan.lines().count() == 1 && names("pods", "orphan")?.lines().count() == 2, "orphans stay: {orphan}");
        let owners = kubectl.path(&["replicasets", "-l", "app=orphan"], ".items[0].metadata.ownerReferences")?;
        ensure!(owners.is_empty(), "an orphan has no owner: {owners}");
        kubectl.apply(&SLEEPERS.replace("NAME", "orphan"))?;
        wait_for("the new deployment to adopt the old replica set", SOON, || {
            let owners =
                kubectl.path(&["replicasets", "-l", "app=orphan"], ".items[*].metadata.ownerReferences[*].kind")?;
            ensure!(owners == "Deployment", "{owners}");
            Ok(())
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "the case is about how long a deletion lasts")]
pub fn grace_period_is_kept(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "grace", |kubectl| {
        let pod = |name: &str| {
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\"image\":\"docker.io/library/testbed:local\",\"command\":[\"/testbed\",\"stubborn\"]}}]}}}}"
            )
        };
        for name in ["slow", "fast", "forced"] {
            kubectl.apply(&pod(name))?;
        }
        kubectl.ok(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=40s"])?;
        let start = std::time::Instant::now();
        kubectl.ok(&["delete", "pod", "slow", "--grace-period=3"])?;
        let lasted = start.elapsed();
        ensure!(
            (2_500..20_000).contains(&lasted.as_millis()),
            "a deaf container lives through its grace period: {lasted:?}"
        );
        kubectl.ok(&["delete", "pod", "fast", "--now"])?;
        kubectl.ok(&["delete", "pod", "forced", "--force", "--grace-period=0"])?;
        ensure!(kubectl.ok(&["get", "pods", "-o", "name"])?.is_empty(), "all gone");
        Ok(())
    })
}

pub fn namespaces_end_with_all_they_hold(cluster: &Cluster) -> anyhow::Result<()> {
    let kubectl = cluster.kubectl.within("short-lived");
    cluster.kubectl.ok(&["create", "namespace", "short-lived"])?;
    kubectl.apply(&SLEEPERS.replace("NAME", "inside"))?;
    kubectl.ok(&["create", "configmap", "held", "--from-literal=a=b"])?;
    kubectl.ok(&["rollout", "status", "deployment", "inside", "--timeout=40s"])?;
    cluster.kubectl.ok(&["delete", "namespace", "short-lived", "--timeout=90s"]).context("deletion ends")?;
    ensure!(cluster.kubectl.fails(&["get", "namespace", "short-lived"], "")?.contains("NotFound"), "gone");
    let error = cluster.kubectl.fails(&["create", "configmap", "late", "-n", "short-lived"], "")?;
    ensure!(error.contains("not found"), "{error}");
    Ok(())
}
