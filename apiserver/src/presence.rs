//! Which API servers serve: each renews a Lease, and `kubernetes.default` points at those that do. Decides when a server counts as
//! gone: its Lease has not changed for 30 s on this server's own clock. All servers of a cluster listen on the same port.

use crate::bootstrap::{OwnWrites, identity};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::update::update;
use gantry_apimachinery::kinds::{ENDPOINT_SLICE, ENDPOINTS, LEASE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "gantry-apiserver-";
const RENEW_EVERY: Duration = Duration::from_secs(10);
const GONE_AFTER_MS: u64 = 30_000;
const SERVICE: &str = "kubernetes";

/// One server's Lease as it was last seen to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    revision: u64,
    at_ms: u64,
}

#[derive(Debug, Default)]
pub struct Presence {
    seen: BTreeMap<String, Seen>,
}

impl Presence {
    /// The addresses whose Leases changed lately. `leases`: address and revision.
    fn serving(&mut self, leases: &[(String, u64)], now_ms: u64) -> Vec<String> {
        self.seen.retain(|address, _| leases.iter().any(|(other, _)| other == address));
        for (address, revision) in leases {
            let fresh = Seen { revision: *revision, at_ms: now_ms };
            let seen = self.seen.entry(address.clone()).or_insert(fresh);
            if seen.revision != *revision {
                *seen = fresh;
            }
        }
        let alive = self.seen.iter().filter(|(_, seen)| seen.at_ms + GONE_AFTER_MS > now_ms);
        alive.map(|(address, _)| address.clone()).collect()
    }

    pub async fn run(&mut self, core: &Core, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
            if let Err(status) = self.tell(core).await {
                tracing::warn!(%status, "this server could not renew its presence");
            }
        }
    }

    /// Renews this server's Lease and publishes who serves. A loopback address is nobody else's endpoint: nothing is told then.
    pub async fn tell(&mut self, core: &Core) -> Outcome<()> {
        let Some((ip, port)) = core.config.advertise.filter(|(ip, _)| !ip.is_loopback()) else { return Ok(()) };
        let user = identity();
        let own = OwnWrites { core, user: &user };
        renew(&own, ip, port).await?;
        let leases = core.stored_kind(&LEASE).resource.snapshot();
        let mut known: Vec<(String, u64)> = leases
            .tree
            .range(
                Box::<str>::from(format!("{NAMESPACE}/{PREFIX}"))..Box::<str>::from(format!("{NAMESPACE}/{PREFIX}~")),
            )
            .map(|(_, lease)| {
                (str_at(&lease.value().unwrap_or_default(), "spec.holderIdentity").to_owned(), lease.revision)
            })
            .collect();
        if !known.iter().any(|(address, _)| *address == ip.to_string()) {
            known.push((ip.to_string(), 0));
        }
        publish(&own, &self.serving(&known, core.clock.boottime_ms()), port).await
    }
}

async fn renew(own: &OwnWrites<'_>, ip: IpAddr, port: u16) -> Outcome<()> {
    let name = format!("{PREFIX}{}", ip.to_string().replace(':', "-"));
    let now = own.core.clock.now().to_micro_string();
    let spec =
        json!({"holderIdentity": ip.to_string(), "leaseDurationSeconds": GONE_AFTER_MS / 1_000, "renewTime": now});
    let labels = json!({"apiserver.kubernetes.io/identity": "gantry-apiserver"});
    let annotations = json!({"gantry.dev/port": port.to_string()});
    let lease = json!({"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}, "spec": spec});
    own.ensure(&LEASE, NAMESPACE, &name, lease).await?;
    let renewed = |old: &Value| {
        let mut new = old.clone();
        new["spec"]["renewTime"] = now.as_str().into();
        Ok(new)
    };
    update(&own.call(&LEASE, NAMESPACE, &name), &renewed).await.map(|_| ())
}

async fn publish(own: &OwnWrites<'_>, addresses: &[String], port: u16) -> Outcome<()> {
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let list: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let subsets = json!([{"addresses": list, "ports": ports}]);
    let ready: Vec<Value> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let metadata = |labels: Value| json!({"name": SERVICE, "namespace": "default", "labels": labels});
    let endpoints =
        json!({"metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})), "subsets": subsets});
    let slice = json!({
        "metadata": metadata(json!({"kubernetes.io/service-name": SERVICE})),
        "addressType": "IPv4", "ports": ports, "endpoints": ready,
    });
    for (kind, object, fields) in
        [(&ENDPOINTS, endpoints, &["subsets"][..]), (&ENDPOINT_SLICE, slice, &["endpoints", "ports"][..])]
    {
        own.ensure(kind, "default", SERVICE, object.clone()).await?;
        let changed = |old: &Value| {
            let mut new = old.clone();
            for field in fields {
                new[*field] = object[*field].clone();
            }
            Ok(new)
        };
        update(&own.call(kind, "default", SERVICE), &changed).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_gone_when_its_lease_stands_still() {
        let mut presence = Presence::default();
        let mut check = |now_s: u64, leases: &[(&str, u64)], expect: &[&str]| {
            let leases: Vec<(String, u64)> =
                leases.iter().map(|(ip, revision)| ((*ip).to_owned(), *revision)).collect();
            assert_eq!(presence.serving(&leases, now_s * 1_000), expect, "at {now_s} s");
        };
        check(0, &[("a", 1), ("b", 2)], &["a", "b"]);
        check(20, &[("a", 3), ("b", 2)], &["a", "b"]);
        check(30, &[("a", 4), ("b", 2)], &["a"]);
        check(40, &[("a", 5), ("b", 6)], &["a", "b"]);
        check(50, &[("a", 7)], &["a"]);
    }
}
