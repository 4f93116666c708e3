//! A host port is given once per machine, protocol and address.

use super::{Check, Checked, Preparing, Reason};
use crate::pod::HostPort;
use crate::snapshot::{Machine, Placed, Snapshot};

#[derive(Debug)]
struct Ports(Vec<HostPort>);

pub fn check(preparing: &mut Preparing) -> Checked {
    let ports = &preparing.info.ports;
    if ports.is_empty() { None } else { Some(Box::new(Ports(ports.clone()))) }
}

impl Ports {
    fn taken<'a>(&self, mut others: impl Iterator<Item = &'a HostPort>) -> Option<&HostPort> {
        others.find_map(|other| self.0.iter().find(|port| port.collides(other)))
    }
}

impl Check for Ports {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        !snapshot.ports_taken().get(machine) || self.taken(snapshot.ports_on(machine)).is_none()
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        let stays = |p: &&Placed| !without.iter().any(|gone| gone.info.uid == p.info.uid);
        let others = snapshot.pods_on(machine).filter(stays).flat_map(|placed| &placed.info.ports);
        let taken = self.taken(others);
        reasons.extend(taken.map(|port| Reason::Port(format!("{}/{}", port.port, port.protocol).into())));
    }
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
            let expect = if collides { vec![("m".to_owned(), Reason::Port("80/TCP".into()))] } else { vec![] };
            assert_eq!(cluster.refused(check, &pod), expect);
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
