//! wip
mod types;
pub use types::DaemonSet;
