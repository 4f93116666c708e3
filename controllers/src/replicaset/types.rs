//! What the replica-set controller looks at. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::edge::Failure;
use crate::objects::{Pod, ReplicaSet};

/// One replica set with everything that its next step depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub set: Arc<ReplicaSet>,
    /// Pods that the set owns, and pods in its namespace that nobody owns. Pods whose deletion was asked for are not here.
    pub pods: Vec<Arc<Pod>>,
    /// Active pods per machine of all sets with the same owner as this one: crowded machines give up pods first.
    pub siblings: BTreeMap<String, usize>,
    /// Why the last attempt to create or delete pods failed.
    pub failure: Option<Failure>,
}
