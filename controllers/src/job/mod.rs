//! wip
mod types;
pub use types::Job;
