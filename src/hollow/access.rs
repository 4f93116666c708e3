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
use kube::config::Kubeconfig;
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
    let server = match args.server {
        Some(server) => server,
        None => server_of(&super::read(&admin)?)
            .map_err(|why| Problem::new(format!("{}: {why}; give --server", admin.display())))?,
    };
    let out = args.out.unwrap_or_else(|| keys.kubeconfig(IDENTITY));
    let identity = Identity { file: IDENTITY.to_owned(), user: USER.to_owned(), group: Some(GROUP.to_owned()) };
    keys.issue_client(&identity, &server, &out, machine::unix_now_s())?;
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

/// The server of a kubeconfig's current context.
fn server_of(text: &str) -> Result<String, String> {
    let config = Kubeconfig::from_yaml(text).map_err(|error| error.to_string())?;
    let current = config.current_context.ok_or("it has no current context")?;
    let context = config.contexts.into_iter().find(|known| known.name == current).and_then(|known| known.context);
    let cluster = context.ok_or_else(|| format!("there is no context {current}"))?.cluster;
    let named = config.clusters.into_iter().find(|known| known.name == cluster).and_then(|known| known.cluster);
    let server = named.and_then(|cluster| cluster.server).filter(|server| !server.is_empty());
    server.ok_or_else(|| format!("cluster {cluster} has no server"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_that_of_the_current_context() {
        let check = |text: &str, expect: Result<&str, &str>| {
            assert_eq!(server_of(text), expect.map(str::to_owned).map_err(str::to_owned), "{text}");
        };
        let clusters = "clusters: [{name: a, cluster: {server: 'https://a:1'}}, {name: b, cluster: {server: 'https://b:2'}}, {name: c, cluster: {}}]
contexts: [{name: x, context: {cluster: a, user: u}}, {name: y, context: {cluster: b, user: u}}, {name: z, context: {cluster: c, user: u}}]";
        check(&format!("{clusters}\ncurrent-context: x"), Ok("https://a:1"));
        check(&format!("{clusters}\ncurrent-context: y"), Ok("https://b:2"));
        check(&format!("{clusters}\ncurrent-context: z"), Err("cluster c has no server"));
        check(&format!("{clusters}\ncurrent-context: w"), Err("there is no context w"));
        check(clusters, Err("it has no current context"));
    }
}
