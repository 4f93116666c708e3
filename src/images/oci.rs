//! An OCI image archive in memory: one layer, its configuration, manifest, index and layout file in a tar.
//!
//! The same input gives the same bytes, so an archive is imported once. It never touches a disk.
//! Format: <https://github.com/opencontainers/image-spec>.

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Read;

/// One entry of the layer.
#[derive(Clone, Debug)]
pub struct File {
    path: String,
    mode: u32,
    /// `None` makes a directory.
    bytes: Option<Vec<u8>>,
}

impl File {
    pub fn program(path: &str, bytes: Vec<u8>) -> Self {
        Self { path: path.to_owned(), mode: 0o755, bytes: Some(bytes) }
    }
    pub fn text(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), mode: 0o644, bytes: Some(text.as_bytes().to_vec()) }
    }
    pub fn directory(path: &str, mode: u32) -> Self {
        Self { path: format!("{path}/"), mode, bytes: None }
    }
}

/// OCI's words for the machine that an image runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    pub architecture: &'static str,
}

impl Platform {
    /// The machine that this program was built for.
    pub fn host() -> Self {
        Self {
            architecture: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            },
        }
    }
}

/// What an image is made of.
#[derive(Clone, Debug)]
pub struct Image {
    pub reference: String,
    pub platform: Platform,
    pub files: Vec<File>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// As in `8080/tcp`; documentation only.
    pub ports: Vec<String>,
}

impl Image {
    /// The archive's bytes.
    pub fn archive(&self) -> anyhow::Result<Vec<u8>> {
        let layer = tar_of(&self.files)?;
        let config = self.config(&digest(&layer))?;
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        }))?;
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        entry["annotations"] = json!({
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": self.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag),
        });
        entry["platform"] = json!({"architecture": self.platform.architecture, "os": "linux"});
        let index = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [entry],
        }))?;
        let mut files = vec![
            File::text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
            File { path: "index.json".to_owned(), mode: 0o644, bytes: Some(index) },
            File::directory("blobs", 0o755),
            File::directory("blobs/sha256", 0o755),
        ];
        for blob in [config, manifest, layer] {
            let name = digest(&blob).replace("sha256:", "blobs/sha256/");
            files.push(File { path: name, mode: 0o644, bytes: Some(blob) });
        }
        tar_of(&files)
    }

    fn config(&self, layer_digest: &str) -> anyhow::Result<Vec<u8>> {
        let ports: Value =
            self.ports.iter().map(|port| (port.clone(), json!({}))).collect::<serde_json::Map<_, _>>().into();
        Ok(serde_json::to_vec(&json!({
            "architecture": self.platform.architecture,
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "Env": ["PATH=/"],
                "WorkingDir": "/",
                "ExposedPorts": ports,
            },
            "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
            "history": [{"created_by": "gantry image build-testbed"}],
        }))?)
    }
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(blob), "size": blob.len()})
}

fn digest(blob: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(blob) {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}

/// A tar of these files in this order, all owned by root and dated 1970.
fn tar_of(files: &[File]) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_ustar();
        let bytes = file.bytes.as_deref().unwrap_or_default();
        header.set_entry_type(if file.bytes.is_some() { tar::EntryType::Regular } else { tar::EntryType::Directory });
        header.set_mode(file.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, &file.path, bytes).with_context(|| format!("packing {}", file.path))?;
    }
    builder.into_inner().context("closing the archive")
}

/// The (image name, manifest digest) pairs in an archive's index.json.
pub fn names_in(archive: impl Read) -> anyhow::Result<Vec<(String, String)>> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().context("reading the archive")? {
        let entry = entry.context("reading the archive")?;
        if entry.path().is_ok_and(|path| path.to_str() == Some("index.json")) {
            let index: Value = serde_json::from_reader(entry).context("reading index.json")?;
            let manifests = index["manifests"].as_array().cloned().unwrap_or_default();
            return Ok(manifests.iter().filter_map(name_and_digest).collect());
        }
    }
    Ok(vec![])
}

fn name_and_digest(manifest: &Value) -> Option<(String, String)> {
    let name = manifest["annotations"]["io.containerd.image.name"].as_str()?;
    Some((name.to_owned(), manifest["digest"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image {
            reference: "docker.io/library/x:local".to_owned(),
            platform: Platform { architecture: "amd64" },
            files: vec![File::directory("etc", 0o755), File::program("x", b"binary".to_vec())],
            entrypoint: vec!["/x".to_owned()],
            command: vec![],
            ports: vec!["80/tcp".to_owned()],
        }
    }

    #[test]
    fn the_same_image_gives_the_same_bytes() {
        assert_eq!(image().archive().unwrap(), image().archive().unwrap());
    }

    #[test]
    fn every_descriptor_points_at_a_blob_of_its_digest_and_size() {
        let archive = image().archive().unwrap();
        let mut blobs = std::collections::BTreeMap::new();
        for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).unwrap();
            blobs.insert(entry.path().unwrap().to_str().unwrap().to_owned(), bytes);
        }
        let blob = |descriptor: &Value| {
            let name = descriptor["digest"].as_str().unwrap().replace(':', "/");
            let bytes = &blobs[&format!("blobs/{name}")];
            assert_eq!(descriptor["size"], bytes.len());
            assert_eq!(descriptor["digest"], digest(bytes));
            bytes.clone()
        };
        let index: Value = serde_json::from_slice(&blobs["index.json"]).unwrap();
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(&layer));
        let named = names_in(archive.as_slice()).unwrap();
        assert_eq!(index["manifests"][0]["digest"], named[0].1);
    }

    #[test]
    fn names_are_read_back() {
        let archive = image().archive().unwrap();
        let names = names_in(archive.as_slice()).unwrap();
        assert_eq!(names[0].0, "docker.io/library/x:local");
        assert!(names[0].1.starts_with("sha256:") && names.len() == 1);
    }
}
