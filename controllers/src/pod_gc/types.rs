//! What the pod garbage collector looks at. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::Pod;

/// The pods that may have to go.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All finished pods.
    pub finished: Vec<Arc<Pod>>,
    /// How many of those are kept.
    pub kept: usize,
    /// Pods on machines that do not exist, and pods that are being deleted and were never placed.
    pub stranded: Vec<Arc<Pod>>,
    /// Machines that were missing for a while and that the server does not have either.
    pub gone: BTreeSet<String>,
}
