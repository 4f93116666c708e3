//! Steps → nftables' command language. It decides syntax only.

use super::layout::MASQUERADE_MARK;
use super::names;
use crate::ruleset::{Frontend, Key, Op, Spread, Sticky, Value};
use std::fmt::Write;

/// Elements written in one command.
const CHUNK: usize = 1_000;

/// Appends the commands for `ops`, in order.
pub fn render(text: &mut String, table: &str, ops: &[Op]) {
    let mut writer = Writer { text, table };
    let mut rest = ops;
    while let Some(first) = rest.first() {
        let verb = verb_of(first);
        let run = match verb {
            None => 1,
            Some(_) => rest.iter().take_while(|op| verb_of(op) == verb).count(),
        };
        let (now, later) = rest.split_at(run);
        match (verb, first) {
            (Some(verb), _) => writer.elements(verb, now),
            (None, Op::AddSpread(spread)) => writer.add_spread(*spread),
            (None, Op::RemoveSpread(spread)) => writer.remove_chain(&names::spread(*spread)),
            (None, Op::SetSticky { frontend, sticky, gone }) => {
                writer.set_sticky(*frontend, sticky);
                for backend in gone {
                    writer.remove_sticky_backend(&names::sticky_backend(*frontend, *backend));
                }
            }
            (None, Op::RemoveSticky { frontend, sticky }) => {
                writer.remove_chain(&names::sticky(*frontend));
                for backend in &sticky.backends {
                    writer.remove_sticky_backend(&names::sticky_backend(*frontend, *backend));
                }
            }
            (None, Op::Add(..) | Op::Delete(..)) => unreachable!("elements have a verb"),
        }
        rest = later;
    }
}

fn verb_of(op: &Op) -> Option<&'static str> {
    match op {
        Op::Add(..) => Some("add"),
        Op::Delete(..) => Some("delete"),
        _ => None,
    }
}

/// The map or set that holds this pair.
fn container(key: Key, value: Value) -> &'static str {
    // A reject needs a filter hook. A drop does not, and so comes after what clients inside may use all the same.
    let refused = value == Value::Refuse;
    match key {
        Key::Service(Frontend::Address { .. }) if refused => names::REFUSED,
        Key::Service(Frontend::NodePort { .. }) if refused => names::NODE_REFUSED,
        Key::Service(Frontend::Address { inside: true, .. }) => names::INSIDE_SERVICES,
        Key::Service(Frontend::NodePort { inside: true, .. }) => names::INSIDE_NODE_SERVICES,
        Key::Service(Frontend::Address { .. }) => names::SERVICES,
        Key::Service(Frontend::NodePort { .. }) => names::NODE_SERVICES,
        Key::Slot(frontend, _) => names::slots(matches!(frontend, Frontend::NodePort { .. }), frontend.protocol()),
        Key::Hairpin(_) => names::HAIRPIN,
    }
}

fn frontend_text(frontend: Frontend) -> String {
    match frontend {
        Frontend::Address { ip, protocol, port, .. } => format!("{ip} . {protocol} . {port}"),
        Frontend::NodePort { protocol, port, .. } => format!("{protocol} . {port}"),
    }
}

fn key_text(key: Key) -> String {
    match key {
        Key::Service(frontend) => frontend_text(frontend),
        Key::Slot(frontend, slot) => {
            let slot = if frontend.is_inside() { names::INSIDE_SLOT + slot } else { slot };
            match frontend {
                Frontend::Address { ip, port, .. } => format!("{ip} . {port} . {slot}"),
                Frontend::NodePort { port, .. } => format!("{port} . {slot}"),
            }
        }
        Key::Hairpin(ip) => format!("{ip} . {ip}"),
    }
}

fn value_text(key: Key, value: Value) -> String {
    match (key, value) {
        (_, Value::Spread(spread)) => format!(" : goto {}", names::spread(spread)),
        (Key::Service(frontend), Value::Sticky) => format!(" : goto {}", names::sticky(frontend)),
        (_, Value::Backend(backend)) => format!(" : {} . {}", backend.ip, backend.port),
        (_, Value::Refuse) => format!(" : goto {}", names::REFUSE_CHAIN),
        (_, Value::Drop) => " : drop".to_owned(),
        (_, Value::Present | Value::Sticky) => String::new(),
    }
}

struct Writer<'a> {
    text: &'a mut String,
    table: &'a str,
}

impl Writer<'_> {
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("writing to a string cannot fail");
        self.text.push('\n');
    }

    fn elements(&mut self, verb: &str, ops: &[Op]) {
        let table = self.table;
        let mut pairs: Vec<(&'static str, String)> = ops
            .iter()
            .filter_map(|op| match op {
                Op::Add(key, value) | Op::Delete(key, value) => {
                    Some((container(*key, *value), key_text(*key) + &value_text(*key, *value)))
                }
                _ => None,
            })
            .collect();
        pairs.sort_by_key(|(container, _)| *container);
        for of_one in pairs.chunk_by(|a, b| a.0 == b.0) {
            for chunk in of_one.chunks(CHUNK) {
                let list: Vec<&str> = chunk.iter().map(|(_, element)| element.as_str()).collect();
                self.line(format_args!("{verb} element inet {table} {} {{ {} }}", chunk[0].0, list.join(", ")));
            }
        }
    }

    /// An emptied chain of this name, whether or not there was one.
    fn empty_chain(&mut self, name: &str) {
        let table = self.table;
        self.line(format_args!("add chain inet {table} {name}"));
        self.line(format_args!("flush chain inet {table} {name}"));
    }

    fn remove_chain(&mut self, name: &str) {
        let table = self.table;
        self.line(format_args!("flush chain inet {table} {name}"));
        self.line(format_args!("delete chain inet {table} {name}"));
    }

    fn rule(&mut self, chain: &str, rule: std::fmt::Arguments<'_>) {
        let table = self.table;
        self.line(format_args!("add rule inet {table} {chain} {rule}"));
    }

    fn mark_to_masquerade(&mut self, chain: &str) {
        self.rule(chain, format_args!("meta mark set meta mark | {MASQUERADE_MARK:#x}"));
    }

    fn add_spread(&mut self, spread: Spread) {
        let chain = names::spread(spread);
        self.empty_chain(&chain);
        if spread.masquerade {
            self.mark_to_masquerade(&chain);
        }
        let address = if spread.node_port { "" } else { "ip daddr . " };
        let map = names::slots(spread.node_port, spread.protocol);
        let protocol = spread.protocol;
        let offset = if spread.inside { format!(" offset {}", names::INSIDE_SLOT) } else { String::new() };
        let key = format!("{address}{protocol} dport . numgen random mod {}{offset}", spread.endpoints);
        self.rule(&chain, format_args!("meta l4proto {protocol} dnat ip to {key} map @{map}"));
    }

    fn set_sticky(&mut self, frontend: Frontend, sticky: &Sticky) {
        let table = self.table;
        let chains: Vec<String> = sticky.backends.iter().map(|b| names::sticky_backend(frontend, *b)).collect();
        for (chain, backend) in chains.iter().zip(&sticky.backends) {
            self.line(format_args!(
                "add set inet {table} {chain} {{ type ipv4_addr; size 65535; flags dynamic,timeout; }}"
            ));
            self.empty_chain(chain);
            if sticky.masquerade {
                self.mark_to_masquerade(chain);
            }
            self.rule(chain, format_args!("update @{chain} {{ ip saddr timeout {}s }}", sticky.timeout_s));
            let protocol = frontend.protocol();
            self.rule(chain, format_args!("meta l4proto {protocol} dnat ip to {}:{}", backend.ip, backend.port));
        }
        let main = names::sticky(frontend);
        self.empty_chain(&main);
        for chain in &chains {
            self.rule(&main, format_args!("ip saddr @{chain} goto {chain}"));
        }
        let choices: Vec<String> = chains.iter().enumerate().map(|(n, chain)| format!("{n} : goto {chain}")).collect();
        self.rule(&main, format_args!("numgen random mod {} vmap {{ {} }}", chains.len(), choices.join(", ")));
    }

    fn remove_sticky_backend(&mut self, name: &str) {
        let table = self.table;
        self.remove_chain(name);
        self.line(format_args!("delete set inet {table} {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruleset::{Backend, Protocol};
    use std::net::Ipv4Addr;

    const FRONT: Frontend =
        Frontend::Address { ip: Ipv4Addr::new(10, 96, 1, 1), protocol: Protocol::Tcp, port: 80, inside: false };
    const BACK: Backend = Backend { ip: Ipv4Addr::new(10, 244, 0, 5), port: 8080 };

    fn check(ops: &[Op], expect: &str) {
        let mut text = String::new();
        render(&mut text, "t", ops);
        assert_eq!(text, expect);
    }

    #[test]
    fn an_endpoint_is_one_element() {
        check(
            &[Op::Delete(Key::Slot(FRONT, 0), Value::Backend(BACK)), Op::Add(Key::Hairpin(BACK.ip), Value::Present)],
            "delete element inet t slots_tcp { 10.96.1.1 . 80 . 0 : 10.244.0.5 . 8080 }\n\
             add element inet t hairpin { 10.244.0.5 . 10.244.0.5 }\n",
        );
    }

    #[test]
    fn elements_of_one_map_share_a_command() {
        let refused = Op::Add(Key::Service(FRONT), Value::Refuse);
        let node = Frontend::NodePort { protocol: Protocol::Udp, port: 30053, inside: false };
        check(
            &[
                Op::Add(Key::Slot(FRONT, 0), Value::Backend(BACK)),
                refused,
                Op::Add(Key::Slot(FRONT, 1), Value::Backend(BACK)),
                Op::Add(Key::Service(node), Value::Drop),
            ],
            "add element inet t node_services { udp . 30053 : drop }\n\
             add element inet t refused { 10.96.1.1 . tcp . 80 : goto refuse }\n\
             add element inet t slots_tcp { 10.96.1.1 . 80 . 0 : 10.244.0.5 . 8080, 10.96.1.1 . 80 . 1 : 10.244.0.5 . 8080 }\n",
        );
    }

    #[test]
    fn a_spread_draws_a_slot() {
        check(
            &[Op::AddSpread(Spread {
                node_port: true,
                inside: false,
                protocol: Protocol::Udp,
                masquerade: true,
                endpoints: 3,
            })],
            "add chain inet t spread/node_masquerade/udp/3\nflush chain inet t spread/node_masquerade/udp/3\n\
             add rule inet t spread/node_masquerade/udp/3 meta mark set meta mark | 0x4000\n\
             add rule inet t spread/node_masquerade/udp/3 meta l4proto udp dnat ip to udp dport . numgen random mod 3 map @node_slots_udp\n",
        );
    }

    #[test]
    fn slots_for_the_inside_stand_apart() {
        let protocol = Protocol::Tcp;
        let inside = FRONT.for_inside();
        let spread = Spread { node_port: false, inside: true, protocol, masquerade: false, endpoints: 3 };
        check(
            &[
                Op::AddSpread(spread),
                Op::Add(Key::Service(inside), Value::Spread(spread)),
                Op::Add(Key::Slot(inside, 2), Value::Backend(BACK)),
            ],
            "add chain inet t spread/address_inside/tcp/3\nflush chain inet t spread/address_inside/tcp/3\n\
             add rule inet t spread/address_inside/tcp/3 meta l4proto tcp dnat ip to ip daddr . tcp dport . numgen random mod 3 offset 16384 map @slots_tcp\n\
             add element inet t inside_services { 10.96.1.1 . tcp . 80 : goto spread/address_inside/tcp/3 }\n\
             add element inet t slots_tcp { 10.96.1.1 . 80 . 16386 : 10.244.0.5 . 8080 }\n",
        );
    }
}
