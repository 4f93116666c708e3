//! What scale is rehearsed with: the machines of a hollow fleet and the workloads that run on them, each drawn from a profile and
//! a seed. The same profile and seed give the same machines and manifests, byte for byte. Pure: no clock, no file, no network.

pub mod fleet;
pub mod workload;

mod dice;
mod duration;
mod fields;

pub use dice::{Dice, Span};
pub use duration::parse_ms;
pub use fields::Problem;
pub use fleet::{FleetProfile, Machine};
pub use workload::{WorkloadProfile, generate};
