//! wip
mod types;
pub use types::Endpoints;
