//! Custom resources: what a `CustomResourceDefinition` makes the API serve.
//!
//! `definition` reads one, `names` decides which names it gets, `version` holds the rules of each of its versions, `printer` its
//! columns, `webhook` asks for conversions, and `manager` keeps what is served in step with what is defined.

mod definition;
mod manager;
mod names;
mod printer;
mod version;
mod webhook;

pub use definition::{Definition, rank};
pub use manager::{CLEANUP, Custom, run};
pub use version::Version;
