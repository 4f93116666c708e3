//! What `nft -j list table` printed → the ruleset that the kernel holds. Pure.

use super::NftError;
use super::layout::Layout;
use super::names;
use crate::ruleset::{Backend, Frontend, Key, Ruleset, Sticky, Value};
use serde_json::Value as Json;

/// `None`: another layout. Sticky chains come back with a timeout of 0, so that they are written again.
pub fn parse(text: &str, layout: &Layout) -> Result<Option<Ruleset>, NftError> {
    let unreadable = |what: String| NftError::Unreadable(what);
    let json: Json = serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let objects = json["nftables"].as_array().ok_or_else(|| unreadable("no list of objects".to_owned()))?;
    let marker = layout.marker();
    let mut ruleset = Ruleset::default();
    let mut known_layout = false;
    for object in objects {
        if let Some(chain) = object["chain"]["name"].as_str() {
            known_layout |= chain == marker;
            add_sticky_chain(&mut ruleset, chain);
        }
        for container in [&object["map"], &object["set"]] {
            let (Some(name), Some(elements)) = (container["name"].as_str(), container["elem"].as_array()) else {
                continue;
            };
            if names::parse_sticky(name).is_some() {
                continue; // Clients, which are the kernel's own.
            }
            for element in elements {
                let (key, value) = pair(name, element).ok_or_else(|| unreadable(format!("{name}: {element}")))?;
                ruleset.elements.insert(key, value);
            }
        }
    }
    // A frontend's chain that lost its endpoints is not something that a transaction of ours leaves.
    let whole = ruleset.validate();
    match (known_layout, whole) {
        (false, _) => Ok(None),
        (true, Ok(())) => Ok(Some(ruleset)),
        (true, Err(what)) => Err(unreadable(what)),
    }
}

fn add_sticky_chain(ruleset: &mut Ruleset, chain: &str) {
    if let Some((frontend, backend)) = names::parse_sticky(chain) {
        let unknown = || Sticky { timeout_s: 0, masquerade: false, backends: vec![] };
        let sticky = ruleset.sticky.entry(frontend).or_insert_with(unknown);
        sticky.backends.extend(backend);
    }
}

fn pair(container: &str, element: &Json) -> Option<(Key, Value)> {
    if container == names::HAIRPIN {
        let ip = element["concat"][0].as_str()?.parse().ok()?;
        return Some((Key::Hairpin(ip), Value::Present));
    }
    let (key, value) = (element[0]["concat"].as_array()?, &element[1]);
    if let Some((node_port, protocol)) = names::parse_slots(container) {
        let (ip, key) = if node_port { (None, key.as_slice()) } else { (key.first()?.as_str(), &key[1..]) };
        let port = number(key.first()?)?;
        let slot = number(key.get(1)?)?;
        let (slot, inside) = slot.checked_sub(names::INSIDE_SLOT).map_or((slot, false), |slot| (slot, true));
        let frontend = match ip {
            Some(ip) => Frontend::Address { ip: ip.parse().ok()?, protocol, port, inside },
            None => Frontend::NodePort { protocol, port, inside },
        };
        let backend = Backend { ip: value["concat"][0].as_str()?.parse().ok()?, port: number(&value["concat"][1])? };
        return Some((Key::Slot(frontend, slot), Value::Backend(backend)));
    }
    let inside = matches!(container, names::INSIDE_SERVICES | names::INSIDE_NODE_SERVICES);
    let frontend = match container {
        names::SERVICES | names::INSIDE_SERVICES | names::REFUSED => {
            let (ip, protocol) = (key.first()?.as_str()?.parse().ok()?, names::protocol(key.get(1)?.as_str()?)?);
            Frontend::Address { ip, protocol, port: number(key.get(2)?)?, inside }
        }
        names::NODE_SERVICES | names::INSIDE_NODE_SERVICES | names::NODE_REFUSED => {
            let protocol = names::protocol(key.first()?.as_str()?)?;
            Frontend::NodePort { protocol, port: number(key.get(1)?)?, inside }
        }
        _ => return None,
    };
    Some((Key::Service(frontend), verdict(value)?))
}

fn verdict(value: &Json) -> Option<Value> {
    if value.get("drop").is_some() {
        return Some(Value::Drop);
    }
    match value["goto"]["target"].as_str()? {
        names::REFUSE_CHAIN => Some(Value::Refuse),
        target if names::parse_sticky(target).is_some() => Some(Value::Sticky),
        target => names::parse_spread(target).map(Value::Spread),
    }
}

fn number(value: &Json) -> Option<u16> {
    value.as_u64().and_then(|n| u16::try_from(n).ok())
}
