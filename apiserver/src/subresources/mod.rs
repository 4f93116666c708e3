//! What lives below an object's path, and the kinds that are only ever posted. Each file decides one of them.

pub mod binding;
mod budget;
pub mod eviction;
pub mod finalize;
pub mod reviews;
pub mod scale;
pub mod token;
