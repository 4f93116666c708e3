//! What the kernel should hold, as data: map elements, the chains that they lead to, and the steps from one such state
//! to another. It never renders nftables' language and never talks to the kernel.
//!
//! A service port is one element that leads to a chain for its number of endpoints; that chain draws a slot and looks
//! the endpoint up in one big map. So an endpoint that comes or goes changes elements only, whatever the number of
//! Services. Services with client affinity have chains of their own, because each endpoint needs a set of its clients.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

/// SCTP is not supported: Gantry's kernels may lack it, and nothing here has been tried with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// An empty name is TCP, as in the API.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "" | "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// What a client connects to, and which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frontend {
    Address {
        ip: Ipv4Addr,
        protocol: Protocol,
        port: u16,
        /// For pods and this node only, where they may use other endpoints than the world outside.
        inside: bool,
    },
    /// The port on every address of this node except loopback.
    NodePort { protocol: Protocol, port: u16, inside: bool },
}

impl Frontend {
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Address { protocol, .. } | Self::NodePort { protocol, .. } => *protocol,
        }
    }

    pub fn is_inside(&self) -> bool {
        match self {
            Self::Address { inside, .. } | Self::NodePort { inside, .. } => *inside,
        }
    }

    /// The same for pods and this node only.
    pub fn for_inside(mut self) -> Self {
        match &mut self {
            Self::Address { inside, .. } | Self::NodePort { inside, .. } => *inside = true,
        }
        self
    }
}

/// Where the connection ends up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    pub ip: Ipv4Addr,
    pub port: u16,
}

/// The shared chain of all frontends with this many endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spread {
    pub node_port: bool,
    pub inside: bool,
    pub protocol: Protocol,
    /// The endpoint sees this node as the client, so that its answer comes back this way.
    pub masquerade: bool,
    pub endpoints: u16,
}

/// One key of one map or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Frontend → chain, or how it is refused.
    Service(Frontend),
    /// One endpoint of a frontend.
    Slot(Frontend, u16),
    /// A local endpoint, which may connect to itself through its Service.
    Hairpin(Ipv4Addr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    Spread(Spread),
    /// To the frontend's own chain.
    Sticky,
    Backend(Backend),
    /// No endpoint: TCP gets a reset, UDP an unreachable.
    Refuse,
    /// No endpoint on this node where only this node's count: silence, as Kubernetes does.
    Drop,
    /// Sets have keys only.
    Present,
}

/// A frontend with `sessionAffinity: ClientIP`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sticky {
    pub timeout_s: u32,
    pub masquerade: bool,
    pub backends: Vec<Backend>,
}

/// Everything that depends on Services. The fixed chains are `nft::layout`'s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub elements: BTreeMap<Key, Value>,
    pub sticky: BTreeMap<Frontend, Sticky>,
}

impl Ruleset {
    /// The shared chains that the elements lead to.
    pub fn spreads(&self) -> BTreeSet<Spread> {
        self.elements.values().filter_map(|value| if let Value::Spread(s) = value { Some(*s) } else { None }).collect()
    }

    /// Every reference leads to something: the invariant of `compile`.
    pub fn validate(&self) -> Result<(), String> {
        for (key, value) in &self.elements {
            match (key, value) {
                (Key::Service(frontend), Value::Spread(spread)) => {
                    let slots =
                        (0..spread.endpoints).all(|slot| self.elements.contains_key(&Key::Slot(*frontend, slot)));
                    if !slots || spread.endpoints == 0 {
                        return Err(format!("{frontend:?} has not its {} slots", spread.endpoints));
                    }
                }
                (Key::Service(frontend), Value::Sticky) if !self.sticky.contains_key(frontend) => {
                    return Err(format!("{frontend:?} has no chain"));
                }
                (Key::Service(frontend), Value::Refuse | Value::Drop) if frontend.is_inside() => {
                    return Err(format!("{frontend:?} leads nowhere"));
                }
                (Key::Service(_), Value::Sticky | Value::Refuse | Value::Drop)
                | (Key::Slot(..), Value::Backend(_))
                | (Key::Hairpin(_), Value::Present) => {}
                (key, value) => return Err(format!("{key:?} cannot hold {value:?}")),
            }
        }
        match self.sticky.iter().find(|(_, sticky)| sticky.backends.is_empty()) {
            Some((frontend, _)) => Err(format!("{frontend:?} is sticky without an endpoint")),
            None => Ok(()),
        }
    }
}

/// One step; the order of a list of them is the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    AddSpread(Spread),
    /// Makes or rewrites the frontend's chain; `gone` lists endpoints whose client sets go.
    SetSticky {
        frontend: Frontend,
        sticky: Sticky,
        gone: Vec<Backend>,
    },
    Delete(Key, Value),
    Add(Key, Value),
    RemoveSticky {
        frontend: Frontend,
        sticky: Sticky,
    },
    RemoveSpread(Spread),
}

/// Steps that turn `old` into `new` inside one transaction: what is led to exists before and as long as it is led to.
pub fn diff(old: &Ruleset, new: &Ruleset) -> Vec<Op> {
    let (old_spreads, new_spreads) = (old.spreads(), new.spreads());
    let mut ops: Vec<Op> = new_spreads.difference(&old_spreads).map(|spread| Op::AddSpread(*spread)).collect();
    for (frontend, sticky) in &new.sticky {
        let before = old.sticky.get(frontend);
        if before != Some(sticky) {
            let before = before.map(|sticky| sticky.backends.as_slice()).unwrap_or_default();
            let gone = before.iter().filter(|backend| !sticky.backends.contains(backend)).copied().collect();
            ops.push(Op::SetSticky { frontend: *frontend, sticky: sticky.clone(), gone });
        }
    }
    let changed = |other: &Ruleset, key: &Key, value: &Value| other.elements.get(key) != Some(value);
    let removed = old.elements.iter().filter(|(key, value)| changed(new, key, value));
    ops.extend(removed.map(|(key, value)| Op::Delete(*key, *value)));
    let added = new.elements.iter().filter(|(key, value)| changed(old, key, value));
    ops.extend(added.map(|(key, value)| Op::Add(*key, *value)));
    let without_chain = old.sticky.iter().filter(|(frontend, _)| !new.sticky.contains_key(frontend));
    ops.extend(without_chain.map(|(frontend, s)| Op::RemoveSticky { frontend: *frontend, sticky: s.clone() }));
    ops.extend(old_spreads.difference(&new_spreads).map(|spread| Op::RemoveSpread(*spread)));
    ops
}

/// A UDP flow that the kernel would go on sending to where it went before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFlow {
    pub frontend: Frontend,
    /// `None`: flows that began before there was any endpoint.
    pub backend: Option<Backend>,
}

/// The UDP flows to forget after going from `old` to `new`.
pub fn stale_flows(old: &Ruleset, new: &Ruleset) -> Vec<StaleFlow> {
    let backends = |ruleset: &Ruleset| -> BTreeMap<Frontend, BTreeSet<Backend>> {
        let mut map: BTreeMap<Frontend, BTreeSet<Backend>> = BTreeMap::new();
        for (key, value) in &ruleset.elements {
            if let (Key::Slot(frontend, _), Value::Backend(backend)) = (key, value)
                && frontend.protocol() == Protocol::Udp
            {
                map.entry(*frontend).or_default().insert(*backend);
            }
        }
        for (frontend, sticky) in ruleset.sticky.iter().filter(|(f, _)| f.protocol() == Protocol::Udp) {
            map.entry(*frontend).or_default().extend(sticky.backends.iter().copied());
        }
        map
    };
    let (before, after) = (backends(old), backends(new));
    let nothing = BTreeSet::new();
    let mut stale = vec![];
    for (frontend, had) in &before {
        let has = after.get(frontend).unwrap_or(&nothing);
        stale.extend(had.difference(has).map(|gone| StaleFlow { frontend: *frontend, backend: Some(*gone) }));
    }
    let first = after.keys().filter(|frontend| !before.contains_key(frontend));
    stale.extend(first.map(|frontend| StaleFlow { frontend: *frontend, backend: None }));
    stale
}
