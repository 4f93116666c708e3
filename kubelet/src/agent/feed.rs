//! The pods of this machine as the API has them: who the cluster is, the watch, and live confirmations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Change, Informer, InformerOptions};
use tokio::time::sleep;

use super::absence::{Trust, trust};
use super::{Message, Shared};
use crate::api::Pod;
use crate::api::objects::HeaderOnly;
use crate::checkpoint::Membership;

const RETRY: Duration = Duration::from_secs(1);
/// How often the newest revision seen is remembered.
const REMEMBER: Duration = Duration::from_secs(10);

pub async fn run(shared: Arc<Shared>) {
    let cancel = shared.cancel.clone();
    tokio::select! {
        () = cancel.cancelled() => {}
        () = follow(&shared) => {}
    }
}

async fn follow(shared: &Arc<Shared>) {
    let cluster = identify(shared).await;
    let selector = format!("spec.nodeName={}", shared.config.node_name);
    let informer: Informer<Pod> =
        Informer::start(shared.client.clone(), &kinds::POD, InformerOptions::fields(selector), shared.cancel.clone());
    informer.synced().await;
    loop {
        let (pods, mut changes) = informer.subscribe_with_state();
        listed(shared, &cluster, &informer, pods).await;
        let mut remember = tokio::time::interval(REMEMBER);
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                _ = remember.tick() => {
                    keep(shared, &cluster, informer.revision());
                    continue;
                }
            };
            let message = match change {
                Some(Change::Applied { new, .. }) => Message::Desired(new),
                Some(Change::Deleted(last)) => {
                    if !believed(shared, &cluster, informer.revision()) {
                        continue;
                    }
                    Message::Missing { uid: last.metadata.uid.to_string() }
                }
                Some(Change::Resync) => break,
                None => return,
            };
            if shared.out.send(message).await.is_err() {
                return;
            }
        }
    }
}

/// Waits until the API says which cluster this is, and that is the one this machine belongs to.
async fn identify(shared: &Arc<Shared>) -> String {
    let mut told = false;
    loop {
        match shared.client.get::<HeaderOnly>(&kinds::NAMESPACE, "", "kube-system").await {
            Ok(ns) => {
                let cluster = ns.metadata.uid.to_string();
                let remembered = shared.checkpoints.membership().unwrap_or_default();
                if trust(remembered.as_ref(), &cluster, u64::MAX) != Trust::OtherCluster {
                    if remembered.is_none() {
                        keep(shared, &cluster, 0);
                    }
                    shared.machine.write().cluster = cluster.clone();
                    shared.cluster.send_replace(Some(cluster.clone()));
                    return cluster;
                }
                if !told {
                    let file = shared.config.root.join("checkpoints/cluster");
                    tracing::error!(
                        cluster,
                        "this machine belongs to another cluster: its pods keep running and nothing is taken from this \
                         one. To let it join, drain it and remove {}",
                        file.display()
                    );
                    told = true;
                }
            }
            Err(e) => tracing::debug!(error = %e.chain(), "the cluster's identity is not known yet"),
        }
        sleep(if told { RETRY * 30 } else { RETRY / 5 }).await;
    }
}

fn believed(shared: &Shared, cluster: &str, revision: u64) -> bool {
    let remembered = shared.checkpoints.membership().unwrap_or_default();
    trust(remembered.as_ref(), cluster, revision) == Trust::Yes
}

fn keep(shared: &Shared, cluster: &str, revision: u64) {
    let before = shared.checkpoints.membership().unwrap_or_default().unwrap_or_default();
    if revision > before.revision || before.cluster.is_empty() {
        let membership = Membership { cluster: cluster.to_owned(), revision };
        if let Err(e) = shared.checkpoints.save_membership(&membership) {
            tracing::warn!(error = %e, "the cluster's identity could not be remembered");
        }
    }
}

async fn listed(shared: &Arc<Shared>, cluster: &str, informer: &Informer<Pod>, pods: Vec<Arc<Pod>>) {
    let uids: BTreeSet<String> = pods.iter().map(|p| p.uid().to_owned()).collect();
    for pod in pods {
        drop(shared.out.send(Message::Desired(pod)).await);
    }
    if believed(shared, cluster, informer.revision()) {
        drop(shared.out.send(Message::Listed { uids }).await);
    } else {
        tracing::error!(
            revision = informer.revision(),
            "the store is older than what was seen: no pod is stopped for missing from it"
        );
    }
}

/// Whether the store surely has no pod of this name and uid: a live read, not a watch, says so.
pub async fn is_gone(shared: &Shared, ns: &str, name: &str, uid: &str) -> Result<bool, ApiError> {
    match shared.client.get::<HeaderOnly>(&kinds::POD, ns, name).await {
        Ok(live) => Ok(live.metadata.uid.as_str() != uid),
        Err(ApiError::NotFound(_)) => Ok(true),
        Err(e) => Err(e),
    }
}

/// Confirms a missing pod, for as long as the answer takes.
pub async fn confirm(shared: Arc<Shared>, pod: Arc<Pod>) {
    let meta = &pod.metadata;
    loop {
        match is_gone(&shared, &meta.namespace, &meta.name, meta.uid.as_str()).await {
            Ok(gone) => {
                drop(shared.out.send(Message::Confirmed { uid: meta.uid.to_string(), gone }).await);
                return;
            }
            Err(e) => tracing::debug!(pod = %pod.label(), error = %e.chain(), "a missing pod is not confirmed yet"),
        }
        tokio::select! {
            () = shared.cancel.cancelled() => return,
            () = sleep(RETRY) => {}
        }
    }
}
