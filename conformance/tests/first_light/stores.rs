//! What happens to the cluster when the stores beside it lose their leaders.

use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kind, wait_for};
use std::time::Duration;

/// The leader of each group is killed. Three members go on without it, for all cases after this one; an etcd that was
/// alone is started again.
pub fn the_leaders_die(cluster: &Cluster) -> anyhow::Result<()> {
    let stores = cluster.external.as_ref().context("the stores are in the cluster's process")?;
    cluster.kubectl.ok(&["create", "configmap", "before", "--from-literal=a=1"])?;
    for group in ["state", "leases", "events"] {
        let leader = stores.kill_leader(group)?;
        if Kind::chosen()? == Kind::Etcd {
            stores.start_member(group, leader)?;
        }
    }
    wait_for("a write to succeed again", Duration::from_secs(30), || {
        cluster.kubectl.ok(&["create", "configmap", "after", "--from-literal=a=1"]).map(drop)
    })?;
    let names = cluster.kubectl.ok(&["get", "configmaps", "before", "after", "-o", "name"])?;
    ensure!(names.lines().count() == 2, "{names}");
    cluster.kubectl.ok(&["delete", "configmap", "before", "after"]).map(drop)
}
