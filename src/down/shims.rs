//! The sockets that containerd's shims leave in a folder of the whole machine. A shim that is killed cannot remove its own, so
//! each bundle's file `address` says which is whose. It removes nothing that no bundle of this data directory names.

use std::path::{Path, PathBuf};

/// Where containerd puts them, whatever its own directories are.
const SOCKETS: &str = "/run/containerd/s";

/// Called once the shims are gone. What cannot be removed is left: it is empty and harms nobody.
pub fn remove_sockets(containerd: &Path) {
    let bundles = containerd.join("state/io.containerd.runtime.v2.task/k8s.io");
    for bundle in std::fs::read_dir(bundles).into_iter().flatten().flatten() {
        let address = std::fs::read_to_string(bundle.path().join("address")).unwrap_or_default();
        if let Some(socket) = socket(&address) {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// The file that `unix:///run/containerd/s/HASH` names; anything else is none of ours.
fn socket(address: &str) -> Option<PathBuf> {
    let path = Path::new(address.trim().strip_prefix("unix://")?);
    let name = path.file_name()?.to_str()?;
    let hashed = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hashed && path.parent() == Some(Path::new(SOCKETS))).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shims_sockets_are_named() {
        let hash = "0123456789abcdef".repeat(4);
        let expect = Some(PathBuf::from(format!("/run/containerd/s/{hash}")));
        assert_eq!(socket(&format!("unix:///run/containerd/s/{hash}\n")), expect);
        for other in ["", "unix:///run/containerd/s/", "unix:///run/containerd/s/../containerd.sock"] {
            assert_eq!(socket(other), None, "{other}");
        }
        assert_eq!(socket(&format!("unix:///etc/{hash}")), None);
        assert_eq!(socket(&format!("/run/containerd/s/{hash}")), None);
    }
}
