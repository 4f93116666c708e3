//! The vocabulary of the Kubernetes API that every Gantry component shares: kinds, object headers, selectors, quantities,
//! statuses, patches, schemas and time.
//!
//! It decides what these mean; it never does I/O, never awaits and never knows a transport.

pub mod kinds;
pub mod meta;
pub mod openapi;
pub mod protobuf;
pub mod schema;
pub mod status;
pub mod structural;

pub mod cel;
pub mod jsonpath;
pub mod re2;

pub mod depth;
pub mod patch;

pub mod fields;
pub mod labels;
pub mod names;
pub mod quantity;

pub mod clock;
pub mod cron;
pub mod time;

#[cfg(test)]
mod fuzz;
