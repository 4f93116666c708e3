//! Who may ask, what the answer does not show, and how it is asked from kubectl.

use crate::asking::{Said, admin, pod, run, told, wants};
use anyhow::ensure;
use gantry_conformance::rehearsal::Rehearsal;
use gantry_conformance::{Kubectl, tools};
use std::path::Path;

const SERVER: &str = "https://127.0.0.1:6443";

fn ask(r: &Rehearsal, kubeconfig: &Path, words: &[&str]) -> anyhow::Result<Said> {
    run(r.gantry(words)?.arg("--kubeconfig").arg(kubeconfig), "")
}

/// A user who has the role `view` in one namespace, and nothing else.
fn viewer(r: &Rehearsal, namespace: &str) -> anyhow::Result<std::path::PathBuf> {
    let out = r.path("viewer.kubeconfig");
    tools::run(r.gantry(&["pki", "client", "viewer", "--server", SERVER])?.arg("--out").arg(&out))?;
    r.kubectl.ok(&["create", "rolebinding", "viewer", "-n", namespace, "--clusterrole=view", "--user=viewer"])?;
    Ok(out)
}

pub fn viewers_may_ask_and_see_nothing_else(r: &Rehearsal) -> anyhow::Result<()> {
    let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: explained}, value: 1000}";
    r.kubectl.apply(class)?;
    let result = r.kubectl.with_namespace("other-team", |other| {
        let fillers: Vec<String> = (0..6).map(|n| pod(&format!("secret-{n}"), &wants("cpu: 7"))).collect();
        other.apply(&fillers.join("---\n"))?;
        other.ok(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])?;
        r.kubectl.with_namespace("viewed", |kubectl| {
            kubectl.apply(&pod("p", &wants("cpu: 2")))?;
            told(kubectl, "p")?;
            let config = viewer(r, "viewed")?;
            let said = ask(r, &config, &["explain", "pod", "p", "-n", "viewed"])?;
            ensure!(said.code == 0, "{}", said.err);
            said.has(&["pod viewed/p waits: no machine of 6 takes it: 6 short of cpu\n"])?;
            could_make_way(r, &config)?;
            sees_no_more(r, &config)
        })?;
        other.ok(&["delete", "pods", "--all", "--timeout=60s"]).map(drop)
    });
    r.kubectl.ok(&["delete", "priorityclass", "explained"])?;
    result
}

/// That pods of another team could make way is told, and how many; not which.
fn could_make_way(r: &Rehearsal, config: &Path) -> anyhow::Result<()> {
    let mut command = r.gantry(&["fits", "-f", "-", "-n", "viewed"])?;
    let manifest = pod("urgent", &format!("priorityClassName: explained, {}", wants("cpu: 2")));
    let said = run(command.arg("--kubeconfig").arg(config), &manifest)?;
    ensure!(said.code == 1, "{}: {}{}", said.code, said.out, said.err);
    said.has(&["Preemption: would help: ending 1 pod of other namespaces on hollow-0000"])?;
    let mut command = r.gantry(&["fits", "-f", "-", "-n", "viewed", "-o", "json"])?;
    let json = run(command.arg("--kubeconfig").arg(config), &manifest)?.out;
    ensure!(!json.contains("secret") && !json.contains("other-team"), "{json}");
    Ok(())
}

fn sees_no_more(r: &Rehearsal, config: &Path) -> anyhow::Result<()> {
    let said = ask(r, config, &["explain", "pod", "secret-0", "-n", "other-team"])?;
    ensure!(said.code == 1 && said.err.contains("forbidden"), "{}: {}", said.code, said.err);
    let own = Kubectl::new(config, &r.path(""))?;
    for words in [
        &["list", "nodes"][..],
        &["get", "secrets", "-n", "viewed"],
        &["list", "pods", "-n", "other-team"],
        &["create", "placementreviews.gantry.dev", "-n", "other-team"],
        &["patch", "placementreviews.gantry.dev", "--subresource=status", "-n", "viewed"],
        &["create", "pods", "-n", "viewed"],
    ] {
        let mut arguments = vec!["auth", "can-i"];
        arguments.extend(words);
        ensure!(own.run(&arguments, "")?.out.trim() == "no", "a viewer may {words:?}");
    }
    Ok(())
}

pub fn kubectl_has_it_as_a_plugin(r: &Rehearsal) -> anyhow::Result<()> {
    let folder = r.path("plugins");
    std::fs::create_dir(&folder)?;
    std::os::unix::fs::symlink(tools::gantry()?, folder.join("kubectl-gantry"))?;
    r.kubectl.with_namespace("plugin", |kubectl| {
        kubectl.apply(&pod("p", &wants("cpu: 9")))?;
        told(kubectl, "p")?;
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let config = admin(r).display().to_string();
        let plugin = Kubectl::new(&admin(r), &r.path(""))?.with_env("PATH", &path).with_env("KUBECONFIG", &config);
        let said = plugin.ok(&["gantry", "explain", "pod", "p", "-n", "plugin"])?;
        ensure!(said.starts_with("pod plugin/p waits: no machine of 6 takes it: 6 short of cpu\n"), "{said}");
        let help = plugin.ok(&["gantry", "fits", "--help"])?;
        ensure!(help.contains("Usage: kubectl gantry fits"), "{help}");
        Ok(())
    })
}

pub fn nobody_answers(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("silence", |kubectl| {
        kubectl.apply(&pod("p", &wants("cpu: 9")))?;
        let condition = told(kubectl, "p")?;
        // Without its rights the scheduler cannot write an answer.
        let binding = kubectl.ok(&["get", "clusterrolebinding", "gantry:scheduler", "-o", "json"])?;
        kubectl.ok(&["delete", "clusterrolebinding", "gantry:scheduler"])?;
        let mut command = r.gantry(&["explain", "pod", "p", "-n", "silence", "--wait-s", "1"])?;
        let said = run(command.arg("--kubeconfig").arg(admin(r)), "")?;
        let bare: serde_json::Value = serde_json::from_str(&binding)?;
        let metadata = serde_json::json!({"name": "gantry:scheduler"});
        let again = serde_json::json!({"apiVersion": bare["apiVersion"], "kind": bare["kind"], "metadata": metadata,
            "subjects": bare["subjects"], "roleRef": bare["roleRef"]});
        kubectl.apply(&again.to_string())?;
        ensure!(said.code == 1, "{}: {}{}", said.code, said.out, said.err);
        for word in [
            "no scheduler answered within 1s",
            "Lease kube-system/kube-scheduler",
            &format!("condition says: {condition}"),
        ] {
            ensure!(said.err.contains(word), "no {word:?} in {}", said.err);
        }
        ensure!(kubectl.path(&["placementreviews"], ".items")? == "[]", "the question stays");
        Ok(())
    })
}
