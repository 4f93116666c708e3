//! The channel that tells of a newer value. In tests it wakes in order, so that a simulation is the same every time.

#[cfg(test)]
pub use crate::sim::watch::{Receiver, Sender};
#[cfg(not(test))]
pub use tokio::sync::watch::{Receiver, Sender};
