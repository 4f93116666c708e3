//! A container's environment: values, references, expansion. Pure; the objects referred to are arguments.

use std::collections::BTreeMap;

use base64::Engine;

use crate::api::objects::{ConfigMap, Secret};
use crate::api::pod::EnvVar;
use crate::api::{Container, Pod};

use super::{Machine, downward};

/// The ConfigMaps and Secrets of the pod's namespace that it refers to, as far as they exist.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub config_maps: BTreeMap<String, std::sync::Arc<ConfigMap>>,
    pub secrets: BTreeMap<String, std::sync::Arc<Secret>>,
}

/// A Secret's value as bytes.
pub fn secret_bytes(secret: &Secret, key: &str) -> Option<Vec<u8>> {
    secret.data.get(key).map(|v| base64::engine::general_purpose::STANDARD.decode(v).unwrap_or_default())
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Names that may be an environment variable: anything printable without `=`.
fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=')
}

/// Replaces `$(NAME)` of what is already set; `$$` is a dollar; unknown names stay as they are.
pub fn expand(text: &str, vars: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match vars.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

/// The whole environment in order, or the message of `CreateContainerConfigError`.
pub fn build(
    pod: &Pod,
    container: &Container,
    m: &Machine,
    ips: &[String],
    sources: &Sources,
    services: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let mut vars: BTreeMap<String, String> = BTreeMap::new();
    let mut order: Vec<String> = vec![];
    let mut set = |vars: &mut BTreeMap<String, String>, name: String, value: String| {
        if vars.insert(name.clone(), value).is_none() {
            order.push(name);
        }
    };
    for (name, value) in services {
        set(&mut vars, name.clone(), value.clone());
    }
    for (name, value) in env_from(container, sources)? {
        set(&mut vars, name, value);
    }
    // References may use every Service variable and what came before them.
    for var in &container.env {
        if let Some(value) = one(pod, container, m, ips, sources, var, &vars)? {
            set(&mut vars, var.name.clone(), value);
        }
    }
    Ok(order
        .into_iter()
        .map(|name| {
            let value = vars[&name].clone();
            (name, value)
        })
        .collect())
}

fn env_from(c: &Container, sources: &Sources) -> Result<Vec<(String, String)>, String> {
    let mut out = vec![];
    for from in &c.env_from {
        let mut push = |key: &str, value: String| {
            let name = format!("{}{key}", from.prefix);
            if is_env_name(&name) {
                out.push((name, value));
            }
        };
        if let Some(r) = &from.config_map_ref {
            match sources.config_maps.get(&r.name) {
                Some(map) => map.data.iter().for_each(|(k, v)| push(k, v.clone())),
                None if r.optional == Some(true) => {}
                None => return Err(format!("configmap \"{}\" not found", r.name)),
            }
        }
        if let Some(r) = &from.secret_ref {
            match sources.secrets.get(&r.name) {
                Some(secret) => {
                    secret.data.keys().for_each(|k| push(k, lossy(secret_bytes(secret, k).unwrap_or_default())))
                }
                None if r.optional == Some(true) => {}
                None => return Err(format!("secret \"{}\" not found", r.name)),
            }
        }
    }
    Ok(out)
}

fn one(
    pod: &Pod,
    container: &Container,
    m: &Machine,
    ips: &[String],
    sources: &Sources,
    var: &EnvVar,
    vars: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    let ns = &pod.metadata.namespace;
    let Some(from) = &var.value_from else {
        return Ok(Some(expand(var.value.as_deref().unwrap_or_default(), vars)));
    };
    if let Some(f) = &from.field_ref {
        return downward::field(pod, m, ips, &f.field_path).map(Some);
    }
    if let Some(r) = &from.resource_field_ref {
        return downward::resource(pod, container, m, r).map(Some);
    }
    if let Some(r) = &from.config_map_key_ref {
        let optional = r.optional == Some(true);
        return match sources.config_maps.get(&r.name) {
            None if optional => Ok(None),
            None => Err(format!("configmap \"{}\" not found", r.name)),
            Some(map) => match map.data.get(&r.key) {
                Some(value) => Ok(Some(value.clone())),
                None if optional => Ok(None),
                None => Err(format!("couldn't find key {} in ConfigMap {ns}/{}", r.key, r.name)),
            },
        };
    }
    if let Some(r) = &from.secret_key_ref {
        let optional = r.optional == Some(true);
        return match sources.secrets.get(&r.name) {
            None if optional => Ok(None),
            None => Err(format!("secret \"{}\" not found", r.name)),
            Some(secret) => match secret_bytes(secret, &r.key) {
                Some(value) => Ok(Some(lossy(value))),
                None if optional => Ok(None),
                None => Err(format!("couldn't find key {} in Secret {ns}/{}", r.key, r.name)),
            },
        };
    }
    Err(format!("invalid valueFrom of environment variable {}", var.name))
}
