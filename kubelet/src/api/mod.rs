//! The parts of Kubernetes objects that the agent reads and writes, as slim structs. Decides only names and defaults
//! of fields; never holds what the agent does not use.

pub mod node;
pub mod objects;
pub mod pod;
pub mod security;
pub mod status;
pub mod volume;

pub use pod::{Container, Pod, PodSpec};
pub use status::PodStatus;
