//! The roles as tasks of this process: each gets its own identity on the API server and is started again when it ends.
//! Which roles run together is the caller's decision.

pub mod access;
pub mod api;
pub mod components;
pub mod guard;
pub mod kubelet;
pub mod metrics;
pub mod proxy;
pub mod standalone;
pub mod stores;
pub mod tls;
