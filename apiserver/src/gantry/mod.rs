//! Gantry's own resources: room on machines, binding, at-most-one claims. Decides that two writers never both succeed; never
//! where a pod should go.

pub mod allocation;
pub mod batch;
pub mod bind;
pub mod claim;
pub mod events;
mod pod_text;
pub mod room;
mod unit;
