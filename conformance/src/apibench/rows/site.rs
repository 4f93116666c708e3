//! What has to be there before a load: namespaces with their accounts, people with their roles, machines and pods.

use crate::apibench::bodies::{self, NAMESPACE, PODS, QUIET, Template};
use crate::apibench::load::{self, Outcome, Shape};
use crate::apibench::servers::Api;
use crate::apibench::wire::{Call, STRATEGIC};
use crate::apibench::{Identity, Lab};
use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};

/// So many of a load's requests are under way at once.
pub const CLIENTS: usize = 64;
const CONNECTIONS: usize = 4;
/// A pod's, as it is stored.
pub const POD_BYTES: usize = 4_096;

pub fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

/// The same caller on several connections.
pub fn connections(identity: &Identity) -> Vec<Identity> {
    vec![identity.clone(); CONNECTIONS]
}

/// Two namespaces, and a person in each who may edit it.
pub struct People {
    pub team: Identity,
    pub quiet: Identity,
}

pub fn people(lab: &Lab, api: &Api) -> anyhow::Result<People> {
    for (namespace, person) in [(NAMESPACE, "ann"), (QUIET, "ben")] {
        let metadata = json!({"name": namespace});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        api.must(&Call::post("/api/v1/namespaces", bytes(&body)))?;
        // No controller runs that would make it.
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        api.must(&Call::post(format!("/api/v1/namespaces/{namespace}/serviceaccounts"), bytes(&body)))?;
        let group = "rbac.authorization.k8s.io";
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "editors"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": person}]});
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/rolebindings");
        api.must(&Call::post(path, bytes(&body)))?;
    }
    Ok(People { team: lab.person("ann")?, quiet: lab.person("ben")? })
}

/// Machines with their status, beginning at `node-00000`.
pub fn nodes(lab: &Lab, api: &Api, count: u64) -> anyhow::Result<()> {
    const NODES: &str = "/api/v1/nodes";
    let identities = connections(&lab.admin()?);
    let shape = Shape { identities: &identities, clients: CLIENTS, count, collection: NODES };
    let (body, status) = (Template::new(&bodies::node()), Template::new(&bodies::node_status()));
    let name = |turn: u64| bodies::node_name(turn as usize);
    load::run(api, "machines", &shape, |_, turn| Call::post(NODES, body.fill(&name(turn), "")))?;
    let report = |_, turn| {
        let name = name(turn);
        Call::patch(format!("{NODES}/{name}/status"), STRATEGIC, status.fill(&name, ""))
    };
    load::run(api, "machines' status", &shape, report)?;
    Ok(())
}

/// A pod's body that is stored in 4 KB, found by a trial.
pub fn pod_template(api: &Api, node: Option<&str>) -> anyhow::Result<Template> {
    const TRIAL: u64 = 9_999_999;
    api.must(&Call::post(PODS, Template::new(&bodies::pod(node, 0)).fill(&bodies::pod_name(TRIAL), "")))?;
    let stored = api.must(&Call::get(bodies::pod_path(TRIAL)))?.len();
    let delete = json!({"gracePeriodSeconds": 0});
    let mut call = Call::post(bodies::pod_path(TRIAL), bytes(&delete));
    call.method = http::Method::DELETE;
    api.must(&call)?;
    let padding =
        POD_BYTES.checked_sub(stored).with_context(|| format!("an unpadded pod has {stored} bytes already"))?;
    Ok(Template::new(&bodies::pod(node, padding)))
}

/// Creates pods `from..from + count`.
pub fn pods(api: &Api, who: &Identity, template: &Template, from: u64, count: u64) -> anyhow::Result<Outcome> {
    let identities = connections(who);
    let shape = Shape { identities: &identities, clients: CLIENTS, count, collection: PODS };
    let body = |turn: u64| template.fill(&bodies::pod_name(from + turn), "");
    load::run(api, "pods", &shape, |_, turn| Call::post(PODS, body(turn)))
}

/// The version that a collection is at now.
pub fn version(api: &Api, collection: &str) -> anyhow::Result<String> {
    let list: Value = serde_json::from_slice(&api.must(&Call::get(format!("{collection}?limit=1")))?)?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned())
}
