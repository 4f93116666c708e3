//! A Service's cluster address and node ports, taken and freed by keys in the Service's own transaction. Decides what a Service
//! needs; two servers can never give one address twice because the keys are in the store.

use super::Effects;
use super::addresses::{Network, pick_port};
use crate::core::{Core, store_failure};
use crate::http::Outcome;
use crate::kinds::value::{default, items, items_mut, remove, str_at};
use crate::rest::call::Call;
use gantry_apimachinery::kinds::SERVICE;
use gantry_apimachinery::status::{FieldErrors, Status};
use gantry_store::RangeRequest;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// After this many lost races the cache is searched for what is taken, instead of trying by chance.
const LOOK_AFTER: u32 = 2;
/// And after this many the store itself: the range is nearly full, or others are faster than the cache.
const ASK_AFTER: u32 = 4;

fn ip_key(ip: &str) -> String {
    format!("/alloc/clusterips/{ip}")
}

fn port_key(port: u16) -> String {
    format!("/alloc/nodeports/{port}")
}

fn owner(service: &Value) -> Vec<u8> {
    let metadata = &service["metadata"];
    json!({"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]})
        .to_string()
        .into_bytes()
}

fn wants_ip(service: &Value) -> bool {
    str_at(service, "spec.type") != "ExternalName" && str_at(service, "spec.clusterIP") != "None"
}

fn wants_ports(service: &Value) -> bool {
    match str_at(service, "spec.type") {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != json!(false),
        _ => false,
    }
}

/// The address that the Service holds, if any.
fn held_ip(service: &Value) -> Option<&str> {
    let ip = str_at(service, "spec.clusterIP");
    (wants_ip(service) && !ip.is_empty()).then_some(ip)
}

fn held_ports(service: &Value) -> BTreeSet<u16> {
    let may_hold = matches!(str_at(service, "spec.type"), "NodePort" | "LoadBalancer");
    let ports = items(service, "spec.ports").iter().filter_map(|port| port["nodePort"].as_u64());
    let ports = ports.chain(service["spec"]["healthCheckNodePort"].as_u64());
    ports.filter(|port| may_hold && *port > 0).filter_map(|port| u16::try_from(port).ok()).collect()
}

fn invalid(name: &str, path: &str, value: Value, why: &str) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(path, value, why);
    Status::invalid(&SERVICE.qualified_kind(), name, &errors)
}

/// Takes what the new Service needs and the old one did not hold; frees what it no longer needs.
pub async fn addresses(
    call: &Call<'_>,
    new: &mut Value,
    old: Option<&Value>,
    attempt: u32,
    effects: &mut Effects,
) -> Outcome<()> {
    let held = old.and_then(held_ip).map(str::to_owned);
    let ip = if wants_ip(new) { Some(settle_ip(call, new, held.as_deref(), attempt, effects).await?) } else { None };
    if str_at(new, "spec.type") == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            remove(&mut new["spec"], field);
        }
    } else {
        let shown = ip.clone().unwrap_or_else(|| "None".into());
        new["spec"]["clusterIP"] = shown.as_str().into();
        new["spec"]["clusterIPs"] = json!([shown]);
        default(&mut new["spec"], "ipFamilies", json!(["IPv4"]));
        default(&mut new["spec"], "ipFamilyPolicy", "SingleStack");
    }
    if let Some(held) = held.filter(|held| ip.as_ref() != Some(held)) {
        effects.free(ip_key(&held));
    }
    settle_ports(call, new, old, attempt, effects).await
}

async fn settle_ip(
    call: &Call<'_>,
    new: &Value,
    held: Option<&str>,
    attempt: u32,
    effects: &mut Effects,
) -> Outcome<String> {
    let given = match str_at(new, "spec.clusterIP") {
        "" => items(new, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or(""),
        ip => ip,
    };
    let name = str_at(new, "metadata.name");
    let network = Network::new(call.core.config.service_cidr);
    if let Some(held) = held
        && (given.is_empty() || given == held)
    {
        return Ok(held.to_owned());
    }
    let ip = if given.is_empty() {
        let reserved =
            |ip: &Ipv4Addr| call.core.config.reserved_ips.contains(ip) || *ip == call.core.config.kubernetes_ip();
        let used = used_ips(call.core, attempt).await?;
        let entropy = call.entropy.rotate_left(attempt * 7);
        let picked = network.pick(entropy, |ip| reserved(&ip) || used.contains(&ip));
        picked.ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?.to_string()
    } else {
        let path = "spec.clusterIPs";
        let inside = given.parse().is_ok_and(|ip| network.contains(ip));
        if !inside {
            let why = "failed to allocate IP: the provided IP is not in the valid range";
            return Err(invalid(name, path, json!([given]), why).into());
        }
        // Node DNS answers there, and no Service holds it.
        let reserved = given.parse().is_ok_and(|ip| call.core.config.reserved_ips.contains(&ip));
        if reserved || (attempt > 0 && taken(call.core, ip_key(given)).await?) {
            let why = format!("failed to allocate IP {given}: provided IP is already allocated");
            return Err(invalid(name, path, json!([given]), &why).into());
        }
        given.to_owned()
    };
    effects.take(ip_key(&ip), owner(new));
    Ok(ip)
}

async fn settle_ports(
    call: &Call<'_>,
    new: &mut Value,
    old: Option<&Value>,
    attempt: u32,
    effects: &mut Effects,
) -> Outcome<()> {
    let held = old.map(held_ports).unwrap_or_default();
    if !matches!(str_at(new, "spec.type"), "NodePort" | "LoadBalancer") {
        for port in items_mut(&mut new["spec"], "ports") {
            remove(port, "nodePort");
        }
        remove(&mut new["spec"], "healthCheckNodePort");
    }
    let mut now = held_ports(new);
    let (first, last) = call.core.config.node_ports;
    for port in now.iter().filter(|port| !held.contains(port)) {
        let why = if !(first..=last).contains(port) {
            format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
        } else if attempt > 0 && taken(call.core, port_key(*port)).await? {
            "provided port is already allocated".to_owned()
        } else {
            continue;
        };
        let at = items(new, "spec.ports").iter().position(|p| p["nodePort"] == json!(port)).unwrap_or(0);
        let path = format!("spec.ports[{at}].nodePort");
        return Err(invalid(str_at(new, "metadata.name"), &path, json!(port), &why).into());
    }
    if wants_ports(new) {
        keep_ports(new, old);
        now.extend(held_ports(new));
        fill_ports(call, new, &mut now, attempt).await?;
    }
    let owner = owner(new);
    for port in now.difference(&held) {
        effects.take(port_key(*port), owner.clone());
    }
    for port in held.difference(&now) {
        effects.free(port_key(*port));
    }
    Ok(())
}

/// A port that did not change keeps its node port when the client leaves it out.
fn keep_ports(new: &mut Value, old: Option<&Value>) {
    let Some(old) = old else { return };
    for port in items_mut(&mut new["spec"], "ports") {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if port["nodePort"].as_u64().unwrap_or(0) == 0
            && let Some(before) = items(old, "spec.ports").iter().find(same)
            && before["nodePort"].is_u64()
        {
            port["nodePort"] = before["nodePort"].clone();
        }
    }
}

async fn fill_ports(call: &Call<'_>, new: &mut Value, now: &mut BTreeSet<u16>, attempt: u32) -> Outcome<()> {
    let used = used_ports(call.core, attempt).await?;
    for (at, port) in items_mut(&mut new["spec"], "ports").iter_mut().enumerate() {
        if port["nodePort"].as_u64().unwrap_or(0) == 0 {
            let entropy = call.entropy.rotate_left(attempt * 7 + u32::try_from(at % 64).unwrap_or(0) * 11);
            let range = call.core.config.node_ports;
            let picked = pick_port(range, entropy, |port| now.contains(&port) || used.contains(&port))
                .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
            port["nodePort"] = picked.into();
            now.insert(picked);
        }
    }
    Ok(())
}

async fn used_ips(core: &Core, attempt: u32) -> Outcome<BTreeSet<Ipv4Addr>> {
    match attempt {
        0..LOOK_AFTER => Ok(BTreeSet::new()),
        LOOK_AFTER..ASK_AFTER => Ok(used(core).0),
        _ => keys(core, &ip_key("")).await,
    }
}

async fn used_ports(core: &Core, attempt: u32) -> Outcome<BTreeSet<u16>> {
    match attempt {
        0..LOOK_AFTER => Ok(BTreeSet::new()),
        LOOK_AFTER..ASK_AFTER => Ok(used(core).1),
        _ => keys(core, "/alloc/nodeports/").await,
    }
}

/// What the store says is taken under a prefix.
async fn keys<T: std::str::FromStr + Ord>(core: &Core, prefix: &str) -> Outcome<BTreeSet<T>> {
    let store = &core.stored_kind(&SERVICE).group.store;
    let request = RangeRequest { keys_only: true, ..RangeRequest::prefix(prefix.to_owned()) };
    let reply = store.range(request).await.map_err(store_failure)?;
    let names = reply.kvs.iter().filter_map(|kv| std::str::from_utf8(&kv.key[prefix.len()..]).ok()?.parse().ok());
    Ok(names.collect())
}

/// Everything that the Services in the cache hold.
fn used(core: &Core) -> (BTreeSet<Ipv4Addr>, BTreeSet<u16>) {
    let snapshot = core.stored_kind(&SERVICE).resource.snapshot();
    let mut all = (BTreeSet::new(), BTreeSet::new());
    for service in snapshot.tree.values() {
        let (ip, ports) =
            service.derived(|value| (held_ip(value).and_then(|ip| ip.parse::<Ipv4Addr>().ok()), held_ports(value)));
        all.0.extend(ip);
        all.1.extend(ports);
    }
    all
}

async fn taken(core: &Core, key: String) -> Outcome<bool> {
    let store = &core.stored_kind(&SERVICE).group.store;
    Ok(!store.range(RangeRequest::key(key)).await.map_err(store_failure)?.kvs.is_empty())
}

/// Frees all that a deleted Service held.
pub fn release(old: &Value, effects: &mut Effects) {
    if let Some(ip) = held_ip(old) {
        effects.free(ip_key(ip));
    }
    for port in held_ports(old) {
        effects.free(port_key(port));
    }
}
