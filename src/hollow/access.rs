//! `gantry hollow access`: the identity of hollow machines, and the roles that say what it may do. It decides how little that is.

use super::IDENTITY;
use crate::cli::HollowAccessArgs;
use crate::datadir::DataDir;
use crate::machine;
use crate::pki::{Identity, Pki};
use crate::problem::Problem;
use crate::say::say;
use anyhow::Context;
use gantry_apimachinery::kinds::{self, Kind};
use gantry_client::{Client, Patch};
use serde_json::{Value, json};

/// Not `system:node:…`: it speaks for many machines, so the roles below say what it may, not the node authoriser.
const USER: &str = "gantry:hollow";
/// Agents' fair queue, and their cheap way to record who reports. The group itself grants nothing.
const GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";

pub async fn run(args: HollowAccessArgs) -> anyhow::Result<()> {
    let data = DataDir::new(&args.data.data_dir)?;
    let keys = Pki::new(&data);
    let admin = args.kubeconfig.unwrap_or_else(|| data.kubeconfig());
    if !admin.is_file() {
        let text = format!("{} is not there: start a cluster first, or name its --data-dir", admin.display());
        return Err(Problem::new(text).into());
    }
    let out = args.out.unwrap_or_else(|| keys.kubeconfig(IDENTITY));
    let identity = Identity { file: IDENTITY.to_owned(), user: USER.to_owned(), group: Some(GROUP.to_owned()) };
    keys.issue_client(&identity, &args.server, &out, machine::unix_now_s())?;
    let client = Client::from_kubeconfig(&admin).await?;
    for (kind, namespace, body) in roles() {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let patch = Patch::Apply { manager: "gantry-hollow".to_owned(), force: true, body };
        let applied = client.patch::<Value>(kind, namespace, &name, patch, None).await;
        applied.with_context(|| format!("applying the {} {name}", kind.kind))?;
    }
    say!("hollow machines may use {}", out.display());
    Ok(())
}

fn roles() -> [(&'static Kind, &'static str, Value); 4] {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let cluster = [
        rule("", &["nodes"], &["create", "get", "list", "watch", "patch"]),
        rule("", &["nodes/status", "pods/status"], &["patch"]),
        rule("", &["pods"], &["list", "watch", "delete"]),
        rule("", &["events"], &["create", "patch"]),
    ];
    let leases = [rule("coordination.k8s.io", &["leases"], &["create", "patch"])];
    let meta = |namespace: &str| match namespace {
        "" => json!({"name": USER}),
        _ => json!({"name": USER, "namespace": namespace}),
    };
    let role = |kind: &str, namespace: &str, rules: &[Value]| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta(namespace), "rules": rules});
    let binding = |kind: &str, of: &str, namespace: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta(namespace),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]})
    };
    [
        (&kinds::CLUSTER_ROLE, "", role("ClusterRole", "", &cluster)),
        (&kinds::CLUSTER_ROLE_BINDING, "", binding("ClusterRoleBinding", "ClusterRole", "")),
        (&kinds::ROLE, LEASES, role("Role", LEASES, &leases)),
        (&kinds::ROLE_BINDING, LEASES, binding("RoleBinding", "Role", LEASES)),
    ]
}
