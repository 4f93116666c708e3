//! Importing archives into containerd's `k8s.io` namespace with `ctr`. It never opens containerd's own files.

use super::oci;
use crate::preflight::find_program;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The containerd namespace that the CRI plugin serves.
const NAMESPACE: &str = "k8s.io";

fn ctr(socket: &Path) -> Command {
    let mut command = Command::new(find_program("ctr").unwrap_or_else(|| "ctr".into()));
    command.arg("--address").arg(socket).args(["--namespace", NAMESPACE, "images"]);
    command.kill_on_drop(true);
    command
}

/// Imports one archive. Returns the names that containerd printed for it.
pub async fn import(socket: &Path, archive: &Path) -> anyhow::Result<Vec<String>> {
    let output = ctr(socket).arg("import").arg(archive).output().await.context("running ctr")?;
    anyhow::ensure!(
        output.status.success(),
        "importing {} failed: {}",
        archive.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_prefix("unpacking ")?.split(' ').next()).map(str::to_owned).collect())
}

/// Imports every `*.tar` in `dir` that containerd does not have under that name and digest. Returns what it imported.
pub async fn import_missing(socket: &Path, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut archives: Vec<PathBuf> = match std::fs::read_dir(dir) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => return Ok(vec![]),
    };
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "tar"));
    archives.sort();
    if archives.is_empty() {
        return Ok(vec![]);
    }
    let present = list(socket).await?;
    let mut imported = vec![];
    for path in archives {
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        let names = oci::names_in(file).with_context(|| format!("reading {}", path.display()))?;
        if names.is_empty() || names.iter().any(|(name, digest)| present.get(name) != Some(digest)) {
            import(socket, &path).await?;
            imported.push(path);
        }
    }
    Ok(imported)
}

/// Name → digest of every image.
async fn list(socket: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let output = ctr(socket).arg("list").output().await.context("running ctr")?;
    anyhow::ensure!(
        output.status.success(),
        "listing images failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(parse_list(&String::from_utf8_lossy(&output.stdout)))
}

/// Columns of `ctr images list`: REF TYPE DIGEST SIZE PLATFORMS LABELS.
fn parse_list(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split_whitespace();
            Some((columns.next()?.to_owned(), columns.nth(1)?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text = "REF TYPE DIGEST SIZE PLATFORMS LABELS\n\
                    docker.io/library/pause:local application/x sha256:ab 1.2 MiB linux/amd64 io.cri=managed\n";
        let expect = BTreeMap::from([("docker.io/library/pause:local".to_owned(), "sha256:ab".to_owned())]);
        assert_eq!(parse_list(text), expect);
    }
}
