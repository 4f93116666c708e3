//! The fixed part of the table: maps, hooks and the rules that do not depend on any Service.
//!
//! A table whose layout differs, because of other flags or another version, is replaced as a whole.

use super::names;
use crate::ruleset::Protocol;
use std::fmt::Write;

/// Marks packets to be masqueraded between the two NAT hooks; the bit that kube-proxy uses for the same.
pub const MASQUERADE_MARK: u32 = 0x4000;
/// Slot numbers are below this: the declared type of a map's key has to name some modulus.
const SLOT_TYPE: &str = "numgen random mod 65536";

/// What the fixed part depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub table: String,
    pub service_cidr: String,
    pub cluster_cidr: String,
    /// Whether pods reach the world outside the cluster under this node's address.
    pub masquerade_egress: bool,
}

/// What a packet asks for: an address, or a port of this node.
const FRONTEND: &str = "ip daddr . meta l4proto . th dport";
const PORT: &str = "meta l4proto . th dport";

impl Layout {
    /// An empty chain whose name tells which layout the table has: FNV-1a of the text.
    pub fn marker(&self) -> String {
        let hash = self
            .body()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("layout_{hash:016x}")
    }

    /// The commands that replace the table by an empty one of this layout.
    pub fn fresh(&self) -> String {
        let table = &self.table;
        // The first line lets the second succeed when there is no table yet.
        format!(
            "add table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  chain {} {{ }}\n{}}}\n",
            self.marker(),
            self.body()
        )
    }

    fn body(&self) -> String {
        let mut text = maps();
        let (frontend, port) = (FRONTEND, PORT);
        let (services, cluster) = (&self.service_cidr, &self.cluster_cidr);
        let to_node = "ip daddr != 127.0.0.0/8 fib daddr type local";
        let egress = match self.masquerade_egress {
            true => format!("    ip saddr {cluster} ip daddr != {cluster} masquerade\n"),
            false => String::new(),
        };
        write!(
            text,
            "  set hairpin {{ typeof ip saddr . ip daddr; }}
  chain refuse {{
    meta l4proto tcp reject with tcp reset
    reject
  }}
  chain refuse_without_endpoints {{
    {frontend} vmap @refused
    {to_node} {port} vmap @node_refused
  }}
  chain balance {{
    {frontend} vmap @services
    {to_node} {port} vmap @node_services
  }}
  chain balance_inside {{
    {frontend} vmap @inside_services
    {to_node} {port} vmap @inside_node_services
    goto balance
  }}
  chain refuse_prerouting {{ type filter hook prerouting priority dstnat - 10; jump refuse_without_endpoints; }}
  chain refuse_output {{ type filter hook output priority -110; jump refuse_without_endpoints; }}
  chain nat_prerouting {{ type nat hook prerouting priority dstnat; ip saddr {cluster} goto balance_inside; goto balance; }}
  chain nat_output {{ type nat hook output priority -100; goto balance_inside; }}
  chain refuse_unknown_forward {{ type filter hook forward priority filter; ip daddr {services} goto refuse; }}
  chain refuse_unknown_output {{
    type filter hook output priority filter;
    ip daddr {services} fib daddr type != local goto refuse
  }}
  chain nat_postrouting {{
    type nat hook postrouting priority srcnat;
    meta mark & {MASQUERADE_MARK:#x} != 0 meta mark set meta mark & {:#x} masquerade
    ct status dnat ip saddr . ip daddr @hairpin masquerade
    ct status dnat ip daddr {cluster} fib saddr type local masquerade
    ct status dnat ct original ip daddr {services} ip saddr != {cluster} masquerade
{egress}  }}
",
            !MASQUERADE_MARK,
        )
        .expect("writing to a string cannot fail");
        text
    }
}

/// The maps, empty. What fills them follows Services.
fn maps() -> String {
    let mut text = String::new();
    for (name, key) in [
        (names::SERVICES, FRONTEND),
        (names::NODE_SERVICES, PORT),
        (names::INSIDE_SERVICES, FRONTEND),
        (names::INSIDE_NODE_SERVICES, PORT),
        (names::REFUSED, FRONTEND),
        (names::NODE_REFUSED, PORT),
    ] {
        writeln!(text, "  map {name} {{ typeof {key} : verdict; }}").expect("writing to a string cannot fail");
    }
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        // With `th dport` for any protocol, nft 1.0.6 cannot read its own map back to add a rule to it.
        let value = format!("ip daddr . {protocol} dport");
        for (node_port, address) in [(false, "ip daddr . "), (true, "")] {
            let name = names::slots(node_port, protocol);
            writeln!(text, "  map {name} {{ typeof {address}{protocol} dport . {SLOT_TYPE} : {value}; }}")
                .expect("writing to a string cannot fail");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_tells_layouts_apart() {
        let layout = Layout {
            table: "gantry".to_owned(),
            service_cidr: "10.96.0.0/16".to_owned(),
            cluster_cidr: "10.244.0.0/16".to_owned(),
            masquerade_egress: true,
        };
        assert_eq!(layout.marker(), layout.clone().marker());
        assert_ne!(layout.marker(), Layout { masquerade_egress: false, ..layout.clone() }.marker());
        assert_eq!(layout.marker(), Layout { table: "other".to_owned(), ..layout.clone() }.marker());
    }
}
