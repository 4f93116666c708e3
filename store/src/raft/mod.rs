//! Raft for one group: openraft behind this crate's own log, state machine and transport.

pub mod log;
pub mod machine;
pub mod roster;
pub mod snapshot;
pub mod types;
