//! What the taint-eviction controller looks at. Decides nothing.

use std::sync::Arc;

use crate::objects::{Node, Pod};

/// One machine and its pods. The pods are read only when some taint evicts.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub node: Arc<Node>,
    pub pods: Vec<Arc<Pod>>,
}
