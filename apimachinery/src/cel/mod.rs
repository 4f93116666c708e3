//! The Common Expression Language as Kubernetes speaks it.
//!
//! It decides what an expression means and what it may cost; it never decides where expressions stand or what follows from
//! their results.

mod duration;
mod url;

pub use duration::Span;
pub use url::Url;
