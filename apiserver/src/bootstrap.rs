//! What every cluster has from its first moment: system namespaces, default roles, priority classes, the APIServices of what is
//! served, the `kubernetes` Service and its endpoints. Decides their content; everything goes through the ordinary write path, and
//! what is there already stays.

use crate::aggregation;
use crate::auth::UserInfo;
use crate::auth::rbac::defaults::{self, DefaultObject};
use crate::auth::rbac::reconcile::{Step, reconciled};
use crate::core::{Core, store_failure};
use crate::fairness;
use crate::http::Outcome;
use crate::kinds::network::Cidr;
use crate::rest::call::{Call, FieldValidation, WriteOptions};
use crate::rest::create::create;
use crate::rest::delete::{DeleteOptions, delete};
use crate::rest::update::update;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{StreamExt, TryStreamExt};
use gantry_apimachinery::kinds::{Kind, NAMESPACE, PRIORITY_CLASS, SERVICE, SERVICE_CIDR};
use gantry_apimachinery::status::{Reason, Status};
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
    fairness::keep::ensure(&at, true).await?;
    // Waits until all of it is in the cache.
    at.roles().await?;
    core.fairness.settle();
    for class in priority_classes() {
        let name = class["metadata"]["name"].as_str().unwrap_or("").to_owned();
        at.ensure(&PRIORITY_CLASS, "", &name, class).await?;
    }
    tolerated("the APIServices of what is served", aggregation::ensure(&at).await)?;
    tolerated("what other servers are told of this one", aggregation::publish(&at).await)?;
    at.kubernetes_service().await
}

/// A store that does not answer is asked again by the caller; an object that cannot be put right must not keep the server down.
fn tolerated(what: &str, outcome: Outcome<()>) -> Outcome<()> {
    match outcome {
        Err(status) if !matches!(status.code(), 503 | 504) => {
            tracing::warn!(what, message = %status.message, "not as it should be");
            Ok(())
        }
        outcome => outcome,
    }
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
            audit: None,
        }
    }

    pub async fn ensure(&self, kind: &Kind, namespace: &str, name: &str, object: Value) -> Outcome<()> {
        if self.core.cached(kind, namespace, name).is_some() {
            return Ok(());
        }
        self.make(kind, namespace, name, object).await
    }

    /// Makes it, whatever the cache has.
    async fn make(&self, kind: &Kind, namespace: &str, name: &str, mut object: Value) -> Outcome<()> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        match create(&self.call(kind, namespace, name), object).await {
            Err(status) if status.reason == Reason::AlreadyExists => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    /// The default roles and bindings. Returns when they are in the cache too: whoever comes then is allowed what they allow.
    ///
    /// All at once, so that the store writes them to disk in a few batches.
    async fn roles(&self) -> Outcome<()> {
        const AT_ONCE: usize = 64;
        let writes: Vec<BoxFuture<'_, Outcome<()>>> =
            defaults::all().into_iter().map(|one| async move { self.role(&one).await }.boxed()).collect();
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let group = &self.core.groups[0];
        let revision = group.store.read_revision().await.map_err(store_failure)?;
        group.wait_for(revision.0).await.map_err(|behind| Status::timeout(&behind.to_string(), 1).into())
    }

    /// A store that does not answer is asked again by the caller; an object that cannot be put right must not keep the server down.
    async fn role(&self, wanted: &DefaultObject) -> Outcome<()> {
        match self.reconcile(wanted).await {
            Err(status) if !matches!(status.code(), 503 | 504) => {
                let (kind, name) = (wanted.kind.kind, &wanted.name);
                tracing::warn!(kind, name, message = %status.message, "a default role or binding is not as it should be");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn reconcile(&self, wanted: &DefaultObject) -> Outcome<()> {
        let (kind, namespace, name) = (wanted.kind, wanted.namespace.as_str(), wanted.name.as_str());
        let Some(existing) = self.core.cached(kind, namespace, name) else {
            return self.ensure(kind, namespace, name, wanted.object.clone()).await;
        };
        let existing = existing.value().map_err(Status::internal)?;
        let call = self.call(kind, namespace, name);
        match reconciled(&existing, &wanted.object) {
            Step::Nothing => Ok(()),
            Step::Update(_) => {
                let again = |old: &Value| match reconciled(old, &wanted.object) {
                    Step::Update(new) => Ok(new),
                    Step::Nothing | Step::Replace => Ok(old.clone()),
                };
                update(&call, &again).await.map(|_| ())
            }
            Step::Replace => {
                delete(&call, &DeleteOptions::default()).await?;
                self.make(kind, namespace, name, wanted.object.clone()).await
            }
        }
    }

    /// The Service at the network's first address, and the range of it. Its endpoints are `presence`'s.
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
        let (address, bits) = self.core.config.service_cidr;
        let range = Cidr { address: address.into(), bits }.canonical().to_string();
        let range = json!({"metadata": {"name": NAME}, "spec": {"cidrs": [range]}});
        self.ensure(&SERVICE_CIDR, "", NAME, range).await
    }
}
