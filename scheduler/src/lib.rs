//! The scheduler: decides which machine each pod runs on, and says why a pod fits nowhere.
//!
//! The core is pure: [`schedule::schedule`] over a [`snapshot::Snapshot`], driven by the state machine in [`engine`]. Only
//! [`run`] does I/O, and only against the API; a machine is never talked to.

pub mod engine;
pub mod explain;
pub mod plugins;
pub mod preempt;
pub mod queue;
pub mod run;
pub mod schedule;
pub mod snapshot;

pub mod api;
pub mod bits;
pub mod class;
pub mod pod;
pub mod resources;
pub mod selector;

pub use run::{Config, Error, Profiles, run};
