//! Where a container's mounts come from on this machine: volumes, sub-paths, the hosts file, the termination message.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::volume_dir;
use crate::api::volume::VolumeMount;
use crate::api::{Container, Pod};
use crate::build::env::expand;
use crate::runtime::v1;

/// The mounts that the pod declares, plus `/etc/hosts` and the termination message unless the pod mounts its own there.
pub fn container_mounts(
    pod: &Pod,
    c: &Container,
    pod_dir: &Path,
    env: &[(String, String)],
    hosts_file: &Path,
    message_file: &Path,
) -> Result<Vec<v1::Mount>, String> {
    let vars: BTreeMap<String, String> = env.iter().cloned().collect();
    let mut out = vec![];
    for mount in &c.volume_mounts {
        out.push(one(pod, mount, pod_dir, &vars)?);
    }
    let own = [(Path::new("/etc/hosts"), hosts_file), (Path::new(c.message_path()), message_file)];
    for (inside, outside) in own {
        if c.volume_mounts.iter().all(|m| Path::new(&m.mount_path) != inside) {
            out.push(v1::Mount {
                container_path: inside.display().to_string(),
                host_path: outside.display().to_string(),
                ..Default::default()
            });
        }
    }
    Ok(out)
}

fn one(pod: &Pod, mount: &VolumeMount, pod_dir: &Path, vars: &BTreeMap<String, String>) -> Result<v1::Mount, String> {
    let volume = pod.spec.volumes.iter().find(|v| v.name == mount.name);
    let volume = volume.ok_or_else(|| format!("volume \"{}\" of a mount is not in the pod", mount.name))?;
    let base = match &volume.host_path {
        Some(host) => PathBuf::from(&host.path),
        None => volume_dir(pod_dir, &volume.name),
    };
    let sub_path = match mount.sub_path_expr.as_deref().filter(|s| !s.is_empty()) {
        Some(text) => {
            let expanded = expand(text, vars);
            if expanded.contains("$(") {
                return Err(format!("subPathExpr {text:?} refers to a variable that is not set"));
            }
            expanded
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    let host_path = if sub_path.is_empty() { base } else { inside(&base, &sub_path)? };
    let mounted_read_only = volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some();
    let propagation = match mount.mount_propagation.as_deref() {
        Some("HostToContainer") => v1::MountPropagation::PropagationHostToContainer,
        Some("Bidirectional") => v1::MountPropagation::PropagationBidirectional,
        _ => v1::MountPropagation::PropagationPrivate,
    };
    let container_path = match Path::new(&mount.mount_path).is_absolute() {
        true => mount.mount_path.clone(),
        false => format!("/{}", mount.mount_path),
    };
    Ok(v1::Mount {
        container_path,
        host_path: host_path.display().to_string(),
        readonly: mount.read_only || mounted_read_only,
        selinux_relabel: false,
        propagation: propagation as i32,
    })
}

/// A sub-path of a volume, made as a directory when nothing is there. Links must not lead out of the volume.
fn inside(base: &Path, sub_path: &str) -> Result<PathBuf, String> {
    let bad = |why: &str| format!("subPath {sub_path:?} {why}");
    if !Path::new(sub_path).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(bad("must stay inside the volume"));
    }
    let base = base.canonicalize().map_err(|e| bad(&e.to_string()))?;
    let mut at = base.clone();
    for part in Path::new(sub_path).components() {
        at.push(part);
        match at.canonicalize() {
            Ok(real) if real.starts_with(&base) => at = real,
            Ok(_) => return Err(bad("leads out of the volume")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && at.symlink_metadata().is_err() => {
                std::fs::create_dir(&at).map_err(|e| bad(&e.to_string()))?;
            }
            Err(e) => return Err(bad(&e.to_string())),
        }
    }
    Ok(at)
}
