//! What the agent remembers on disk: one file per pod, and which cluster this machine belongs to. It never writes a
//! Secret's content.
//!
//! A file is the line `1` (the format), then JSON. A file of a newer format, or a broken one, is left alone and told.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::Pod;

const FORMAT: &[u8] = b"1\n";

static TURN: AtomicU64 = AtomicU64::new(0);

/// The cluster that this machine belongs to, and the newest state of it that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Membership {
    /// The uid of the cluster's kube-system namespace.
    pub cluster: String,
    pub revision: u64,
}

pub struct Checkpoints {
    dir: PathBuf,
}

impl Checkpoints {
    pub fn open(root: &Path) -> io::Result<Self> {
        let dir = root.join("checkpoints");
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }
    fn pod_file(&self, uid: &str) -> PathBuf {
        self.dir.join(format!("pod-{uid}"))
    }

    pub fn save_pod(&self, pod: &Pod) -> io::Result<()> {
        write(&self.pod_file(pod.uid()), pod)
    }
    pub fn remove_pod(&self, uid: &str) -> io::Result<()> {
        match std::fs::remove_file(self.pod_file(uid)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
    /// All pods that can be read, and what was wrong with the other files.
    pub fn pods(&self) -> (Vec<Pod>, Vec<String>) {
        let (mut pods, mut bad) = (vec![], vec![]);
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with("pod-")) {
            match read::<Pod>(&entry.path()) {
                Ok(Some(pod)) => pods.push(pod),
                Ok(None) => {}
                Err(e) => bad.push(format!("{}: {e}", entry.path().display())),
            }
        }
        pods.sort_by(|a, b| a.uid().cmp(b.uid()));
        (pods, bad)
    }

    pub fn membership(&self) -> io::Result<Option<Membership>> {
        read(&self.dir.join("cluster"))
    }
    pub fn save_membership(&self, m: &Membership) -> io::Result<()> {
        write(&self.dir.join("cluster"), m)
    }
    /// Any other small object under a name of its own.
    pub fn save(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write(&self.dir.join(name), value)
    }
    pub fn load<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        read(&self.dir.join(name))
    }
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = FORMAT.to_vec();
    serde_json::to_writer(&mut bytes, value)?;
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    // Two writers of one file must not share the staged one.
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!(".{turn}.tmp"));
    std::fs::write(&staged, &bytes)?;
    std::fs::rename(&staged, path)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    if path.extension().is_some_and(|e| e == "tmp") {
        return Ok(None);
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let Some(json) = bytes.strip_prefix(FORMAT) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not of format 1; a newer agent wrote it, or it is damaged",
        ));
    };
    Ok(Some(serde_json::from_slice(json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_survive_and_strange_files_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let c = Checkpoints::open(dir.path()).unwrap();
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "ns", "uid": "u1"},
            "spec": {"containers": [{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 3}]}
        }))
        .unwrap();
        c.save_pod(&pod).unwrap();
        std::fs::write(dir.path().join("checkpoints/pod-u2"), "2\n{}").unwrap();
        std::fs::write(dir.path().join("checkpoints/pod-u3.tmp"), "1\n{").unwrap();
        let (pods, bad) = c.pods();
        assert_eq!((pods, bad.len()), (vec![pod], 1));
        c.remove_pod("u1").unwrap();
        c.remove_pod("u1").unwrap();
        assert_eq!(c.pods().0, []);
        assert_eq!(c.membership().unwrap(), None);
        let m = Membership { cluster: "k".into(), revision: 7 };
        c.save_membership(&m).unwrap();
        assert_eq!(c.membership().unwrap(), Some(m));
    }
}
