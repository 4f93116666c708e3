//! A pod's volumes on this machine: made before its sandbox, refreshed while it runs, removed after its containers.
//!
//! It decides where volumes are and what is in them. It never starts a container, and never writes a Secret to a disk:
//! what holds secrets is a tmpfs.

mod atomic;
mod fs;
mod mounts;
mod place;
mod project;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use gantry_apimachinery::time::Timestamp;

use crate::api::Pod;
use crate::api::objects::{ConfigMap, Secret};
use crate::api::volume::{TokenSource, Volume};
use crate::build::Machine;
use crate::build::env::Sources;

pub use atomic::{File, Payload};
pub use fs::mounted_below;
pub use mounts::container_mounts;
pub use place::Place;

/// Where objects that pods refer to come from.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// `Ok(None)` when it surely does not exist.
    async fn config_map(&self, ns: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, String>;
    async fn secret(&self, ns: &str, name: &str) -> Result<Option<Arc<Secret>>, String>;
    /// What the runtime calls the configuration that a RuntimeClass stands for.
    async fn handler(&self, class: &str) -> Result<String, String>;
    /// A token of the pod's service account, and when it ends.
    async fn token(&self, pod: &Pod, source: &TokenSource) -> Result<(String, Option<Timestamp>), String>;
}

/// Names of the (ConfigMaps, Secrets) that a pod's volumes and environments refer to.
pub fn references(pod: &Pod) -> (Vec<String>, Vec<String>) {
    let (mut maps, mut secrets) = (vec![], vec![]);
    for v in &pod.spec.volumes {
        maps.extend(v.config_map.iter().map(|c| c.name.clone()));
        secrets.extend(v.secret.iter().map(|s| s.secret_name.clone()));
        for p in v.projected.iter().flat_map(|p| &p.sources) {
            maps.extend(p.config_map.iter().map(|c| c.name.clone()));
            secrets.extend(p.secret.iter().map(|s| s.name.clone()));
        }
    }
    for c in pod.all_containers() {
        for from in &c.env_from {
            maps.extend(from.config_map_ref.iter().map(|r| r.name.clone()));
            secrets.extend(from.secret_ref.iter().map(|r| r.name.clone()));
        }
        for source in c.env.iter().filter_map(|e| e.value_from.as_ref()) {
            maps.extend(source.config_map_key_ref.iter().map(|r| r.name.clone()));
            secrets.extend(source.secret_key_ref.iter().map(|r| r.name.clone()));
        }
    }
    for list in [&mut maps, &mut secrets] {
        list.sort();
        list.dedup();
    }
    (maps, secrets)
}

/// Fetches all that a pod refers to. What does not exist is simply not in the answer.
pub async fn gather(pod: &Pod, objects: &dyn Objects) -> Result<Sources, String> {
    let ns = &pod.metadata.namespace;
    let (maps, secrets) = references(pod);
    let mut sources = Sources::default();
    for name in maps {
        if let Some(map) = objects.config_map(ns, &name).await? {
            sources.config_maps.insert(name, map);
        }
    }
    for name in secrets {
        if let Some(secret) = objects.secret(ns, &name).await? {
            sources.secrets.insert(name, secret);
        }
    }
    Ok(sources)
}

/// The tokens that a pod's projected volumes hold, by (audience, path).
pub type Tokens = BTreeMap<(String, String), String>;

/// What volumes are filled with, or why it could not be had.
type Fetched = Result<(Sources, Tokens), String>;

async fn tokens(pod: &Pod, objects: &dyn Objects) -> Result<Tokens, String> {
    let mut out = Tokens::new();
    for source in pod.spec.volumes.iter().filter_map(|v| v.projected.as_ref()).flat_map(|p| &p.sources) {
        if let Some(t) = &source.service_account_token {
            let (token, _) = objects.token(pod, t).await?;
            out.insert((t.audience.clone().unwrap_or_default(), t.path.clone()), token);
        }
    }
    Ok(out)
}

pub fn volume_dir(pod_dir: &Path, name: &str) -> PathBuf {
    pod_dir.join("volumes").join(name)
}

/// Makes all volumes, or refreshes them: idempotent. `ips` are the pod's, once it has some.
///
/// An object that cannot be fetched does not hurt a volume that is there already: it keeps what it has.
pub async fn prepare(
    pod: &Pod,
    place: &Place,
    objects: &dyn Objects,
    m: &Machine,
    ips: &[String],
    stamp: &str,
) -> Result<(), String> {
    let fetched: Fetched = async { Ok((gather(pod, objects).await?, tokens(pod, objects).await?)) }.await;
    place.fill(|pod_dir| make(pod, pod_dir, &fetched, m, ips, stamp))
}

fn make(pod: &Pod, pod_dir: &Path, fetched: &Fetched, m: &Machine, ips: &[String], stamp: &str) -> Result<(), String> {
    for v in &pod.spec.volumes {
        let dir = volume_dir(pod_dir, &v.name);
        let failed = |e: String| format!("MountVolume.SetUp failed for volume \"{}\" : {e}", v.name);
        if let Some(host) = &v.host_path {
            fs::check_host_path(host).map_err(failed)?;
            continue;
        }
        if let Some(empty) = &v.empty_dir {
            fs::empty_dir(pod, &dir, empty).map_err(|e| failed(e.to_string()))?;
            continue;
        }
        match fetched {
            Ok((sources, tokens)) => {
                let Some(payload) = project::payload(pod, v, m, ips, sources, tokens).map_err(failed)? else {
                    return Err(failed("this kind of volume is not supported".into()));
                };
                write(pod, v, &dir, &payload, stamp).map_err(|e| failed(e.to_string()))?;
            }
            Err(_) if dir.join("..data").exists() => {}
            Err(e) => return Err(failed(e.clone())),
        }
    }
    Ok(())
}

fn write(pod: &Pod, v: &Volume, dir: &Path, payload: &Payload, stamp: &str) -> io::Result<()> {
    let secret = v.secret.is_some() || v.projected.is_some();
    if secret {
        fs::tmpfs(dir, None, None)?;
    } else {
        std::fs::create_dir_all(dir)?;
    }
    let group = pod.spec.security_context.as_ref().and_then(|s| s.fs_group);
    atomic::write(dir, payload, group.and_then(|g| u32::try_from(g).ok()), stamp).map(drop)
}
