//! What every cluster has from its first moment: system namespaces, priority classes, the `kubernetes` Service and its endpoints.
//! Decides their content; everything goes through the ordinary write path, and what is there already stays.

use crate::auth::UserInfo;
use crate::core::Core;
use crate::http::Outcome;
use crate::rest::call::{Call, FieldValidation, WriteOptions};
use crate::rest::create::create;
use gantry_apimachinery::kinds::{Kind, NAMESPACE, PRIORITY_CLASS, SERVICE};
use gantry_apimachinery::status::Reason;
use parking_lot::Mutex;
use serde_json::{Value, json};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The identity of the server itself.
pub fn identity() -> UserInfo {
    UserInfo::new("system:apiserver", &["system:masters"])
}

/// Makes what is missing. Any number of servers may do this at once.
pub async fn run(core: &Core) -> Outcome<()> {
    let user = identity();
    let at = OwnWrites { core, user: &user };
    for name in NAMESPACES {
        at.ensure(&NAMESPACE, "", name, json!({"metadata": {"name": name}})).await?;
    }
    for class in priority_classes() {
        let name = class["metadata"]["name"].as_str().unwrap_or("").to_owned();
        at.ensure(&PRIORITY_CLASS, "", &name, class).await?;
    }
    at.kubernetes_service().await
}

fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, band: Option<&str>, policy: &str, description: &str| {
        let mut metadata = json!({"name": name});
        if let Some(band) = band {
            metadata["labels"] = json!({"gantry.dev/band": band});
        }
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value,
            "preemptionPolicy": policy, "description": description,
        })
    };
    const LOWER: &str = "PreemptLowerPriority";
    vec![
        class(
            "system-node-critical",
            2_000_001_000,
            None,
            LOWER,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            None,
            LOWER,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        class(
            "production",
            1_000_000,
            Some("production"),
            LOWER,
            "Serving workloads: placed against reserved room, never evicted for batch.",
        ),
        class(
            "batch",
            -1_000,
            Some("batch"),
            LOWER,
            "Work that may wait and be restarted: uses what production reserved and does not use.",
        ),
        class("best-effort", -10_000, Some("best-effort"), "Never", "Work that only uses what is left over."),
    ]
}

/// The server's own writes, through the ordinary path.
pub struct OwnWrites<'a> {
    pub core: &'a Core,
    pub user: &'a UserInfo,
}

impl OwnWrites<'_> {
    pub fn call<'b>(&'b self, kind: &Kind, namespace: &'b str, name: &'b str) -> Call<'b> {
        Call {
            core: self.core,
            served: self.core.stored_kind(kind),
            namespace,
            name,
            subresource: None,
            user: self.user,
            options: WriteOptions {
                field_manager: "gantry-apiserver".into(),
                field_validation: FieldValidation::Strict,
                ..WriteOptions::default()
            },
            now: self.core.clock.now(),
            entropy: 0,
            warnings: Mutex::default(),
        }
    }

    pub async fn ensure(&self, kind: &Kind, namespace: &str, name: &str, mut object: Value) -> Outcome<()> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        if self.core.cached(kind, namespace, name).is_some() {
            return Ok(());
        }
        match create(&self.call(kind, namespace, name), object).await {
            Err(status) if status.reason == Reason::AlreadyExists => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    /// The Service at the network's first address. Its endpoints are `presence`'s.
    async fn kubernetes_service(&self) -> Outcome<()> {
        const NAME: &str = "kubernetes";
        const LABELS: [(&str, &str); 2] = [("component", "apiserver"), ("provider", "kubernetes")];
        let labels: serde_json::Map<String, Value> =
            LABELS.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        let port = self.core.config.advertise.map_or(6443, |(_, port)| port);
        let service = json!({
            "metadata": {"name": NAME, "namespace": "default", "labels": labels},
            "spec": {
                "type": "ClusterIP", "clusterIP": self.core.config.kubernetes_ip().to_string(), "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            },
        });
        self.ensure(&SERVICE, "default", NAME, service).await?;
        Ok(())
    }
}
