//! The names of chains and sets, and reading them back. nftables allows letters, digits, `/`, `_` and `.` in them.

use crate::compile::MAX_ENDPOINTS;
use crate::ruleset::{Backend, Frontend, Protocol, Spread};

pub const SERVICES: &str = "services";
pub const NODE_SERVICES: &str = "node_services";
pub const INSIDE_SERVICES: &str = "inside_services";
pub const INSIDE_NODE_SERVICES: &str = "inside_node_services";
pub const REFUSED: &str = "refused";
pub const NODE_REFUSED: &str = "node_refused";
pub const HAIRPIN: &str = "hairpin";
pub const REFUSE_CHAIN: &str = "refuse";
const INSIDE: &str = "inside_";

/// The slots of frontends for the inside begin here: they share a map with the others.
pub const INSIDE_SLOT: u16 = MAX_ENDPOINTS as u16;

/// The map of endpoints. One for each protocol: a map's type has to name the protocol of the port that it gives.
pub fn slots(node_port: bool, protocol: Protocol) -> &'static str {
    match (node_port, protocol) {
        (false, Protocol::Tcp) => "slots_tcp",
        (false, Protocol::Udp) => "slots_udp",
        (true, Protocol::Tcp) => "node_slots_tcp",
        (true, Protocol::Udp) => "node_slots_udp",
    }
}

/// Whether the map is of node ports, and its protocol.
pub fn parse_slots(name: &str) -> Option<(bool, Protocol)> {
    let (kind, name) = name.rsplit_once('_')?;
    let node_port = match kind {
        "slots" => false,
        "node_slots" => true,
        _ => return None,
    };
    Some((node_port, protocol(name)?))
}

pub fn spread(spread: Spread) -> String {
    let kind = if spread.node_port { "node" } else { "address" };
    let inside = if spread.inside { "_inside" } else { "" };
    let masquerade = if spread.masquerade { "_masquerade" } else { "" };
    format!("spread/{kind}{inside}{masquerade}/{}/{}", spread.protocol, spread.endpoints)
}

pub fn parse_spread(name: &str) -> Option<Spread> {
    let (kind, rest) = name.strip_prefix("spread/")?.split_once('/')?;
    let (protocol_name, endpoints) = rest.split_once('/')?;
    let without = |kind, suffix| str::strip_suffix(kind, suffix).map_or((kind, false), |kind| (kind, true));
    let (kind, masquerade) = without(kind, "_masquerade");
    let (kind, inside) = without(kind, "_inside");
    let node_port = match kind {
        "node" => true,
        "address" => false,
        _ => return None,
    };
    let endpoints = endpoints.parse().ok()?;
    Some(Spread { node_port, inside, protocol: protocol(protocol_name)?, masquerade, endpoints })
}

pub fn sticky(frontend: Frontend) -> String {
    let inside = if frontend.is_inside() { INSIDE } else { "" };
    match frontend {
        Frontend::Address { ip, protocol, port, .. } => format!("sticky/{inside}{ip}/{protocol}/{port}"),
        Frontend::NodePort { protocol, port, .. } => format!("sticky/{inside}node/{protocol}/{port}"),
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
    let (place, inside) = front[0].strip_prefix(INSIDE).map_or((front[0], false), |place| (place, true));
    let frontend = match place {
        "node" => Frontend::NodePort { protocol, port, inside },
        ip => Frontend::Address { ip: ip.parse().ok()?, protocol, port, inside },
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
            for inside in [false, true] {
                let value = Spread { node_port, inside, protocol: Protocol::Udp, masquerade, endpoints: 40 };
                assert_eq!(parse_spread(&spread(value)), Some(value));
            }
        }
        let backend = Backend { ip: Ipv4Addr::new(10, 1, 2, 3), port: 99 };
        let protocol = Protocol::Udp;
        for frontend in [
            Frontend::Address { ip: Ipv4Addr::new(10, 96, 0, 9), protocol, port: 53, inside: false },
            Frontend::NodePort { protocol, port: 30053, inside: false },
        ] {
            for frontend in [frontend, frontend.for_inside()] {
                assert_eq!(parse_sticky(&sticky(frontend)), Some((frontend, None)));
                assert_eq!(parse_sticky(&sticky_backend(frontend, backend)), Some((frontend, Some(backend))));
            }
        }
        assert_eq!(parse_sticky("sticky/x"), None);
        assert_eq!(parse_slots(slots(true, protocol)), Some((true, protocol)));
        assert_eq!(parse_slots("hairpin"), None);
    }
}
