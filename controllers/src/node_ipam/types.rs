//! What the node-ipam controller looks at. Decides nothing.

use std::sync::Arc;

use super::cidr::Ranges;
use crate::objects::Node;

/// All machines at once: one range must never be given to two.
#[derive(Clone, Debug)]
pub struct Observed {
    pub nodes: Vec<Arc<Node>>,
    pub ranges: Ranges,
}
