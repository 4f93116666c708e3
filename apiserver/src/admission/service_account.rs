//! ServiceAccount: every pod runs as an account of its namespace and, unless it opts out, finds that account's token, the cluster's
//! certificate and its namespace under `/var/run/secrets/kubernetes.io/serviceaccount`.

use super::{Admission, Attributes};
use crate::http::Outcome;
use crate::kinds::value::{at, items, items_mut, str_at};
use gantry_apimachinery::kinds::SERVICE_ACCOUNT;
use gantry_apimachinery::names;
use gantry_apimachinery::status::Status;
use serde_json::{Value, json};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A mirror pod is the copy of a file on the machine; its secrets are not ours to give.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// One hour and seven seconds, as Kubernetes asks for: it tells these tokens from deliberate ones.
const TOKEN_SECONDS: i64 = 3_607;

pub struct ServiceAccount;

impl Admission for ServiceAccount {
    fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value) -> Outcome<()> {
        if !attributes.creates_pod() || pod["metadata"]["annotations"].get(MIRROR).is_some() {
            return Ok(());
        }
        let namespace = attributes.call.namespace;
        if str_at(pod, "spec.serviceAccountName").is_empty() {
            let legacy = str_at(pod, "spec.serviceAccount").to_owned();
            pod["spec"]["serviceAccountName"] = if legacy.is_empty() { "default".into() } else { legacy.into() };
        }
        let name = str_at(pod, "spec.serviceAccountName").to_owned();
        pod["spec"]["serviceAccount"] = name.as_str().into();
        let account = attributes.call.core.cached(&SERVICE_ACCOUNT, namespace, &name);
        let account = account.ok_or_else(|| {
            let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
            Status::forbidden("pods", attributes.name, &why)
        })?;
        let account = account.value().map_err(Status::internal)?;
        if items(pod, "spec.imagePullSecrets").is_empty() && !items(&account, "imagePullSecrets").is_empty() {
            pod["spec"]["imagePullSecrets"] = account["imagePullSecrets"].clone();
        }
        let wants = |object: &Value, path: &str| at(object, path).and_then(Value::as_bool);
        let mounts = wants(pod, "spec.automountServiceAccountToken")
            .or_else(|| wants(&account, "automountServiceAccountToken"))
            .unwrap_or(true);
        if mounts {
            mount(pod, attributes.call.entropy);
        }
        Ok(())
    }
}

/// Adds the volume, and a mount in every container that has nothing at that path.
fn mount(pod: &mut Value, entropy: u64) {
    let lacks = |container: &Value| !items(container, "volumeMounts").iter().any(|mount| mount["mountPath"] == MOUNT);
    let spec = &mut pod["spec"];
    let any = ["containers", "initContainers"].iter().any(|list| items(spec, list).iter().any(lacks));
    if !any {
        return;
    }
    let existing = items(spec, "volumes")
        .iter()
        .map(|volume| str_at(volume, "name"))
        .find(|name| name.starts_with("kube-api-access-"));
    let name = existing.map_or_else(|| names::generate("kube-api-access-", entropy), str::to_owned);
    if existing.is_none() {
        let mut volumes = items(spec, "volumes").to_vec();
        volumes.push(volume(&name));
        spec["volumes"] = volumes.into();
    }
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list).iter_mut().filter(|container| lacks(container)) {
            let mut mounts = items(container, "volumeMounts").to_vec();
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
            container["volumeMounts"] = mounts.into();
        }
    }
}

fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_mounted_once_in_every_container_that_lacks_it() {
        let own = json!([{"name": "mine", "mountPath": MOUNT}]);
        let mut pod = json!({"spec": {
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": own}], "initContainers": [{"name": "i"}],
        }});
        mount(&mut pod, 7);
        let name = str_at(&pod["spec"]["volumes"][0], "name").to_owned();
        assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
        assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["name"], name.as_str());
        assert_eq!(pod["spec"]["containers"][1]["volumeMounts"], own);
        assert_eq!(items(&pod["spec"]["initContainers"][0], "volumeMounts").len(), 1);
        let before = pod.clone();
        mount(&mut pod, 8);
        assert_eq!(pod, before);
    }
}
