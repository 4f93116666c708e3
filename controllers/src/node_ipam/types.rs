//! What the node-ipam controller looks at. Decides nothing.

use std::sync::Arc;

use super::cidr::Ranges;
use super::given::Given;
use crate::objects::Node;

/// All machines at once: one range must never be given to two.
#[derive(Clone, Debug)]
pub struct Observed {
    pub nodes: Vec<Arc<Node>>,
    pub ranges: Ranges,
    /// What was given out and does not show on the machines yet.
    pub given: Given,
}
