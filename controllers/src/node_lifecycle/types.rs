//! What the node-lifecycle controller looks at. Decides nothing.

use std::sync::Arc;

use crate::objects::{Node, Pod};

/// One machine, and what its heartbeat says.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub node: Arc<Node>,
    /// Its Lease was not renewed for too long, and a live read agreed.
    pub silent: bool,
    /// Its pods may be evicted for that.
    pub may_lose: bool,
    /// Pods on it that still say they are ready. Read only for a machine that may be lost.
    pub ready_pods: Vec<Arc<Pod>>,
}
