//! Which files a volume holds: keys of ConfigMaps and Secrets, fields of the pod, tokens. Pure.

use base64::Engine;

use super::Tokens;
use super::atomic::{File, Payload};
use crate::api::Pod;
use crate::api::objects::{ConfigMap, Secret};
use crate::api::volume::{ConfigMapSource, DownwardFile, KeyToPath, Projection, Volume};
use crate::build::env::{Sources, secret_bytes};
use crate::build::{Machine, downward};

const DEFAULT_MODE: u32 = 0o644;

/// `None` for a kind of volume that is none of these.
pub fn payload(
    pod: &Pod,
    v: &Volume,
    m: &Machine,
    ips: &[String],
    sources: &Sources,
    tokens: &Tokens,
) -> Result<Option<Payload>, String> {
    let mut out = Payload::new();
    if let Some(c) = &v.config_map {
        config_map(pod, c, c.default_mode.unwrap_or(DEFAULT_MODE), sources, &mut out)?;
    } else if let Some(s) = &v.secret {
        let mode = s.default_mode.unwrap_or(DEFAULT_MODE);
        secret(pod, &s.secret_name, &s.items, s.optional, mode, sources, &mut out)?;
    } else if let Some(d) = &v.downward_api {
        downward_files(pod, &d.items, d.default_mode.unwrap_or(DEFAULT_MODE), m, ips, &mut out)?;
    } else if let Some(p) = &v.projected {
        let mode = p.default_mode.unwrap_or(DEFAULT_MODE);
        for source in &p.sources {
            projection(pod, source, mode, m, ips, sources, tokens, &mut out)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(out))
}

#[expect(clippy::too_many_arguments, reason = "one call site that has them all at hand")]
fn projection(
    pod: &Pod,
    p: &Projection,
    mode: u32,
    m: &Machine,
    ips: &[String],
    sources: &Sources,
    tokens: &Tokens,
    out: &mut Payload,
) -> Result<(), String> {
    if let Some(c) = &p.config_map {
        config_map(pod, c, mode, sources, out)?;
    }
    if let Some(s) = &p.secret {
        secret(pod, &s.name, &s.items, s.optional, mode, sources, out)?;
    }
    if let Some(d) = &p.downward_api {
        downward_files(pod, &d.items, mode, m, ips, out)?;
    }
    if let Some(t) = &p.service_account_token {
        let key = (t.audience.clone().unwrap_or_default(), t.path.clone());
        let token = tokens.get(&key).ok_or("the service account token is not there yet")?;
        out.insert(t.path.clone(), File { bytes: token.clone().into_bytes(), mode });
    }
    Ok(())
}

fn map_bytes(map: &ConfigMap, key: &str) -> Option<Vec<u8>> {
    let binary = || map.binary_data.get(key).and_then(|v| base64::engine::general_purpose::STANDARD.decode(v).ok());
    map.data.get(key).map(|v| v.clone().into_bytes()).or_else(binary)
}

fn config_map(pod: &Pod, c: &ConfigMapSource, mode: u32, sources: &Sources, out: &mut Payload) -> Result<(), String> {
    let optional = c.optional == Some(true);
    let Some(map) = sources.config_maps.get(&c.name) else {
        return if optional { Ok(()) } else { Err(format!("configmap \"{}\" not found", c.name)) };
    };
    let keys = map.data.keys().chain(map.binary_data.keys());
    let get = |key: &str| map_bytes(map, key);
    let whose = format!("{}/{}", pod.metadata.namespace, c.name);
    pick(&c.items, keys, get, optional, mode, &whose, out)
}

fn secret(
    pod: &Pod,
    name: &str,
    items: &[KeyToPath],
    optional: Option<bool>,
    mode: u32,
    sources: &Sources,
    out: &mut Payload,
) -> Result<(), String> {
    let optional = optional == Some(true);
    let Some(secret) = sources.secrets.get(name) else {
        return if optional { Ok(()) } else { Err(format!("secret \"{name}\" not found")) };
    };
    let secret: &Secret = secret;
    let whose = format!("{}/{name}", pod.metadata.namespace);
    pick(items, secret.data.keys(), |key| secret_bytes(secret, key), optional, mode, &whose, out)
}

fn pick<'a>(
    items: &[KeyToPath],
    keys: impl Iterator<Item = &'a String>,
    get: impl Fn(&str) -> Option<Vec<u8>>,
    optional: bool,
    mode: u32,
    whose: &str,
    out: &mut Payload,
) -> Result<(), String> {
    if items.is_empty() {
        out.extend(keys.filter_map(|k| Some((k.clone(), File { bytes: get(k)?, mode }))));
        return Ok(());
    }
    for item in items {
        match get(&item.key) {
            Some(bytes) => {
                out.insert(item.path.clone(), File { bytes, mode: item.mode.unwrap_or(mode) });
            }
            None if optional => {}
            None => return Err(format!("references non-existent key: {} in {whose}", item.key)),
        }
    }
    Ok(())
}

fn downward_files(
    pod: &Pod,
    items: &[DownwardFile],
    mode: u32,
    m: &Machine,
    ips: &[String],
    out: &mut Payload,
) -> Result<(), String> {
    let own = pod.spec.containers.first().ok_or("the pod has no container")?;
    for item in items {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(f), _) => downward::field(pod, m, ips, &f.field_path)?,
            (None, Some(r)) => downward::resource(pod, own, m, r)?,
            (None, None) => return Err(format!("no source for {}", item.path)),
        };
        out.insert(item.path.clone(), File { bytes: text.into_bytes(), mode: item.mode.unwrap_or(mode) });
    }
    Ok(())
}
