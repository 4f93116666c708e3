//! What every version of kubectl asks about people and machines: who am I, may I, tokens, certificates, nodes.

use std::sync::{Mutex, PoisonError};

use crate::{contains_all, each_kubectl};
use anyhow::ensure;
use gantry_conformance::{Cluster, Kubectl};

pub fn kubectl_asks_who_may_what(cluster: &Cluster) -> anyhow::Result<()> {
    each_kubectl(cluster, "access", |kubectl, minor| {
        people(kubectl)?;
        nodes(kubectl, minor)
    })
}

fn people(kubectl: &Kubectl) -> anyhow::Result<()> {
    contains_all(&kubectl.ok(&["auth", "whoami"])?, &["kubernetes-admin", "system:masters"])?;
    ensure!(kubectl.ok(&["auth", "can-i", "create", "pods/exec"])?.trim() == "yes", "the administrator may");
    let namespace = kubectl.path(&["serviceaccount", "default"], ".metadata.namespace")?;
    let account = format!("--as=system:serviceaccount:{namespace}:default");
    let may = |verb: &str, resource: &str| kubectl.run(&["auth", "can-i", verb, resource, &account], "");
    let said = may("list", "pods")?;
    ensure!(said.code == 1 && said.out.trim() == "no", "an account may nothing at first: {said:?}");
    let roles = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: reader, namespace: {namespace}}}\n\
         rules: [{{apiGroups: [''], resources: [pods], verbs: [list]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: reader, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}\n\
         subjects: [{{kind: ServiceAccount, name: default, namespace: {namespace}}}]\n"
    );
    let reconciled = kubectl.ok_with(&["auth", "reconcile", "-f", "-"], &roles)?;
    contains_all(
        &reconciled,
        &["role.rbac.authorization.k8s.io/reader", "rolebinding.rbac.authorization.k8s.io/reader"],
    )?;
    ensure!(may("list", "pods")?.out.trim() == "yes", "bound");
    contains_all(&kubectl.ok(&["auth", "can-i", "--list", &account])?, &["Resources", "pods", "[list]"])?;
    let token = kubectl.ok(&["create", "token", "default", "--duration=10m"])?;
    ensure!(token.trim().split('.').count() == 3, "a token has three parts");
    let refused = kubectl.fails(&["get", "secrets", &account], "")?;
    contains_all(&refused, &["(Forbidden)", "cannot list resource \"secrets\" in API group \"\""])
}

fn nodes(kubectl: &Kubectl, minor: u32) -> anyhow::Result<()> {
    contains_all(&kubectl.ok(&["get", "nodes", "-o", "wide"])?, &["Ready", "v1.35.", "INTERNAL-IP", "containerd://"])?;
    let node = kubectl.path(&["nodes"], ".items[0].metadata.name")?;
    contains_all(
        &kubectl.ok(&["describe", "node", &node])?,
        &["Allocatable:", "Non-terminated Pods:", "KubeletReady"],
    )?;
    taint(kubectl, &node, &format!("suite-{minor}"))?;
    contains_all(&kubectl.ok(&["cordon", &node, "--dry-run=server"])?, &["cordoned (server dry run)"])?;
    let drain = ["drain", &node, "--dry-run=server", "--ignore-daemonsets", "--force", "--delete-emptydir-data"];
    contains_all(&kubectl.ok(&drain)?, &["drained (server dry run)"])
}

/// kubectl writes all taints of a machine at once, from what it read before: two at a time would undo each other's.
fn taint(kubectl: &Kubectl, node: &str, key: &str) -> anyhow::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    kubectl.ok(&["taint", "nodes", node, &format!("{key}=yes:PreferNoSchedule")])?;
    contains_all(&kubectl.path(&["node", node], ".spec.taints[*].key")?, &[key])?;
    kubectl.ok(&["taint", "nodes", node, &format!("{key}-")])?;
    ensure!(!kubectl.path(&["node", node], ".spec.taints[*].key")?.contains(key), "the taint is gone");
    Ok(())
}
