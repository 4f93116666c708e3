//! A host port is given once per machine, protocol and address.

use super::{Filter, Reason};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    if pod.ports.is_empty() {
        return None;
    }
    Some(Box::new(move |machine| {
        let taken = || snapshot.pods_on(machine).flat_map(|placed| &placed.info.ports);
        match pod.ports.iter().find(|port| taken().any(|other| port.collides(other))) {
            Some(port) => Err(vec![Reason::Port(format!("{}/{}", port.port, port.protocol))]),
            None => Ok(()),
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn ports_collide_by_protocol_and_address() {
        let port = |ip: &str, protocol: &str| {
            let port = json!({"hostPort": 80, "containerPort": 8080, "hostIP": ip, "protocol": protocol});
            json!({"containers": [{"ports": [port]}]})
        };
        let check = |own: serde_json::Value, other: serde_json::Value, collides: bool| {
            let mut cluster = Cluster::default();
            cluster.machine("m", json!({}));
            cluster.bound("other", "m", other);
            let pod = cluster.pod("p", own);
            let expect = if collides { vec![("m", Reason::Port("80/TCP".into()))] } else { vec![] };
            assert_eq!(cluster.refused(filter, &pod), expect);
        };
        check(port("", "TCP"), port("", "TCP"), true);
        check(port("10.0.0.1", "TCP"), port("", "TCP"), true);
        check(port("10.0.0.1", "TCP"), port("10.0.0.2", "TCP"), false);
        check(port("", "TCP"), port("", "UDP"), false);
        let on_host = json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]});
        check(port("", "TCP"), on_host, true);
        check(port("", "TCP"), json!({"containers": [{"ports": [{"containerPort": 80}]}]}), false);
    }
}
