//! Black-box machinery for suites and benchmarks: a cluster of the built binary in a network namespace of its own, the real
//! kubectl, and waiting on conditions. It decides how a test reaches the product; it never reaches into a crate.

pub mod apibench;
pub mod background;
pub mod cluster;
pub mod etcdctl;
pub mod external;
pub mod fleet;
pub mod kubectl;
pub mod machine;
pub mod namespace;
pub mod readings;
pub mod rehearsal;
pub mod runner;
pub mod schedbench;
pub mod storebench;
pub mod tools;
pub mod traces;
pub mod wait;
pub mod web;

pub use background::Background;
pub use cluster::{Cluster, ClusterOptions};
pub use etcdctl::Etcdctl;
pub use external::{External, Kind};
pub use fleet::{Fleet, Side};
pub use kubectl::Kubectl;
pub use machine::Machine;
pub use rehearsal::Rehearsal;
pub use wait::{wait_for, wait_until};
pub use web::http_get;
