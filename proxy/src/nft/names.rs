//! The names of chains and sets, and reading them back. nftables allows letters, digits, `/`, `_` and `.` in them.

use crate::ruleset::{Backend, Frontend, Protocol, Spread};

pub const SERVICES: &str = "services";
pub const NODE_SERVICES: &str = "node_services";
pub const SLOTS: &str = "slots";
pub const NODE_SLOTS: &str = "node_slots";
pub const REFUSED: &str = "refused";
pub const NODE_REFUSED: &str = "node_refused";
pub const HAIRPIN: &str = "hairpin";
pub const REFUSE_CHAIN: &str = "refuse";

pub fn spread(spread: Spread) -> String {
    let kind = if spread.node_port { "node" } else { "address" };
    let masquerade = if spread.masquerade { "_masquerade" } else { "" };
    format!("spread/{kind}{masquerade}/{}", spread.endpoints)
}

pub fn parse_spread(name: &str) -> Option<Spread> {
    let (kind, endpoints) = name.strip_prefix("spread/")?.split_once('/')?;
    let (kind, masquerade) = match kind.strip_suffix("_masquerade") {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let node_port = match kind {
        "node" => true,
        "address" => false,
        _ => return None,
    };
    Some(Spread { node_port, masquerade, endpoints: endpoints.parse().ok()? })
}

pub fn sticky(frontend: Frontend) -> String {
    match frontend {
        Frontend::Address { ip, protocol, port } => format!("sticky/{ip}/{protocol}/{port}"),
        Frontend::NodePort { protocol, port } => format!("sticky/node/{protocol}/{port}"),
    }
}

/// The chain of one endpoint of a sticky frontend, and the set of its clients.
pub fn sticky_backend(frontend: Frontend, backend: Backend) -> String {
    format!("{}/{}/{}", sticky(frontend), backend.ip, backend.port)
}

/// Reads both of the above.
pub fn parse_sticky(name: &str) -> Option<(Frontend, Option<Backend>)> {
    let parts: Vec<&str> = name.strip_prefix("sticky/")?.split('/').collect();
    let (front, back) = parts.split_at_checked(3)?;
    let protocol = protocol(front[1])?;
    let port = front[2].parse().ok()?;
    let frontend = match front[0] {
        "node" => Frontend::NodePort { protocol, port },
        ip => Frontend::Address { ip: ip.parse().ok()?, protocol, port },
    };
    match back {
        [] => Some((frontend, None)),
        [ip, port] => Some((frontend, Some(Backend { ip: ip.parse().ok()?, port: port.parse().ok()? }))),
        _ => None,
    }
}

pub fn protocol(name: &str) -> Option<Protocol> {
    match name {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn names_are_read_back() {
        for (node_port, masquerade) in [(false, false), (true, false), (true, true), (false, true)] {
            let value = Spread { node_port, masquerade, endpoints: 40 };
            assert_eq!(parse_spread(&spread(value)), Some(value));
        }
        let backend = Backend { ip: Ipv4Addr::new(10, 1, 2, 3), port: 99 };
        let protocol = Protocol::Udp;
        for frontend in [
            Frontend::Address { ip: Ipv4Addr::new(10, 96, 0, 9), protocol, port: 53 },
            Frontend::NodePort { protocol, port: 30053 },
        ] {
            assert_eq!(parse_sticky(&sticky(frontend)), Some((frontend, None)));
            assert_eq!(parse_sticky(&sticky_backend(frontend, backend)), Some((frontend, Some(backend))));
        }
        assert_eq!(parse_sticky("sticky/x"), None);
    }
}
