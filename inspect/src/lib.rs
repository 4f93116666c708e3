//! What people ask a cluster beyond kubectl: how objects were a while ago, what changed since, why something waits, does not go
//! away, or is refused, and where pods would find a place. Everything comes from the API server by the rights of whoever asks.
//!
//! Deciding (what a name means, what changed, what holds an object) is pure; `access` is the only part that asks.

mod access;
mod changes;
mod compare;
mod explain;
mod get;
mod render;
mod resources;
mod why;

pub use access::{Access, named as kubeconfig_named};
pub use changes::{Since, diff};
pub use explain::{Fit, Manner, explain, fits};
pub use get::{Form, Get, get};
pub use why::{refused, why};

/// Which objects a command is about.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Empty: the kubeconfig's.
    pub namespace: String,
    pub all_namespaces: bool,
    pub labels: String,
}

/// What a person typed cannot be done as it is; the text says what to do. The program ends with 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misused(pub String);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}
