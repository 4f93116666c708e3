//! What the root-CA publisher looks at. Decides nothing.

use std::sync::Arc;

use crate::objects::{ConfigMap, Namespace};

/// A namespace, its copy of the certificate, and what it should say.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    pub published: Option<Arc<ConfigMap>>,
    /// PEM. Empty: there is nothing to publish.
    pub root_ca: Arc<str>,
}

/// The map that every pod mounts beside its token.
pub const NAME: &str = "kube-root-ca.crt";
