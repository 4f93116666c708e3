//! HTTP as the API speaks it: request targets, queries, content negotiation, bodies and errors. Never reads the store.

pub mod body;
pub mod gzip;
pub mod negotiate;
pub mod pretty;
pub mod query;
pub mod target;

pub use body::{Body, empty, full, stream};
pub use query::Query;
pub use target::{Target, Verb};

use gantry_apimachinery::status::Status;

/// Every failure that a client can see is a `Status`; boxed because it is much larger than what succeeds.
pub type Failure = Box<Status>;
pub type Outcome<T> = Result<T, Failure>;
pub type Request = http::Request<Body>;
pub type Response = http::Response<Body>;
