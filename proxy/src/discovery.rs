//! The last copy of Services and EndpointSlices on this node's disk: what node DNS answers from, and what the proxy
//! begins with when the control plane is away. Every file carries its format's version.

use crate::model::{EndpointSlice, Service};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Raised when a reader of the version before could not use the file.
const VERSION: u32 = 1;

/// Everything that names and addresses come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovery {
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    services: &'a [Arc<Service>],
    slices: &'a [Arc<EndpointSlice>],
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    services: Vec<Arc<Service>>,
    slices: Vec<Arc<EndpointSlice>>,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The caller tries again at the next change.
    #[error("{}", .path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// The caller goes on without a copy.
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
}

impl Discovery {
    /// `None` when there is no copy yet.
    pub fn read(path: &Path) -> Result<Option<Self>, DiscoveryError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DiscoveryError::File { path: path.to_owned(), source }),
        };
        let unreadable = |reason: String| DiscoveryError::Unreadable { path: path.to_owned(), reason };
        let read: Read = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if read.version != VERSION {
            return Err(unreadable(format!("it has version {}, this program reads {VERSION}", read.version)));
        }
        Ok(Some(Self { services: read.services, slices: read.slices }))
    }

    /// Replaces the copy as a whole: readers see the old one or the new one.
    pub fn write(&self, path: &Path) -> Result<(), DiscoveryError> {
        let failed = |source| DiscoveryError::File { path: path.to_owned(), source };
        let written = Written { version: VERSION, services: &self.services, slices: &self.slices };
        let bytes = serde_json::to_vec(&written).map_err(|error| failed(error.into()))?;
        let temporary = path.with_extension("new");
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let mut file = std::fs::File::create(&temporary).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        std::fs::rename(&temporary, path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_other_versions_are_not() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("node/discovery.json");
        assert_eq!(Discovery::read(&path).unwrap(), None);
        let service = Service { metadata: serde_json::from_str(r#"{"name":"a"}"#).unwrap(), ..Service::default() };
        let copy = Discovery { services: vec![Arc::new(service)], slices: vec![] };
        copy.write(&path).unwrap();
        assert_eq!(Discovery::read(&path).unwrap(), Some(copy));
        std::fs::write(&path, r#"{"version":2,"services":[],"slices":[]}"#).unwrap();
        assert!(Discovery::read(&path).unwrap_err().to_string().contains("version 2"));
        std::fs::write(&path, "{").unwrap();
        assert!(Discovery::read(&path).is_err());
    }
}
