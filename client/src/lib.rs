//! How every component talks to the API: a client with our own errors, shared informers of slim projections, work
//! queues and the loop contract, the event recorder, and leader election on a Lease.
//!
//! Nothing here knows what a component decides, and nothing is cached that nobody asked for.

mod client;
mod error;
mod links;
mod options;
mod query;
mod response;

pub mod backoff;
pub mod events;
pub mod informer;
pub mod leader;
pub mod looprt;
pub mod metrics;
pub mod workqueue;

#[cfg(test)]
mod mock;

pub use client::Client;
pub use error::{ApiError, TransportError};
pub use events::{EventRecorder, EventType, ObjectRef};
pub use informer::{Change, Follow, Informer, InformerOptions, Receiver, Told};
pub use looprt::{LoopSpec, Next};
pub use metrics::Metrics;
pub use options::{DeleteOptions, List, ListOptions, Patch, Propagation};
pub use workqueue::WorkQueue;
