//! Sandboxes and containers that carry a pod's labels but belong to no pod that the agent knows.

use std::sync::Arc;

use super::{Shared, feed};
use crate::pod::PodSeen;
use crate::volumes::Place;

/// Removes them only when they are of this very cluster and a live read says that the pod is gone.
pub async fn consider(shared: Arc<Shared>, uid: String, seen: PodSeen) {
    let Some(cluster) = shared.cluster.borrow().clone() else { return };
    let Some(newest) = seen.sandboxes.iter().max_by_key(|s| s.attempt) else { return };
    if newest.cluster != cluster || uid.is_empty() {
        return;
    }
    match feed::is_gone(&shared, &newest.pod_namespace, &newest.pod_name, &uid).await {
        Ok(true) => {}
        Ok(false) | Err(_) => return,
    }
    tracing::info!(pod = newest.pod_name, ns = newest.pod_namespace, uid, "removing what a deleted pod left");
    for container in &seen.containers {
        drop(shared.runtime.stop_container(&container.id, 30).await);
    }
    for sandbox in &seen.sandboxes {
        for result in [shared.runtime.stop_sandbox(&sandbox.id).await, shared.runtime.remove_sandbox(&sandbox.id).await]
        {
            if let Err(error) = result {
                tracing::warn!(sandbox = sandbox.id, %error, "a left-over sandbox could not be removed");
            }
        }
    }
    let place = Place::new(shared.config.pod_dir(&uid));
    super::effects::tear_down(&shared, &uid, &place).map_err(|e| tracing::warn!(uid, e, "left-overs stay")).ok();
}
