//! Custom resources: what a `CustomResourceDefinition` makes the API serve.
//!
//! `definition` reads one, `names` decides which names it gets, `version` holds the rules of each of its versions, `printer` its
//! columns, `webhook` asks for conversions, and `upkeep` keeps what is served in step with what is defined.

mod definition;
mod names;
mod printer;
mod upkeep;
mod version;
mod webhook;

pub use definition::{Definition, rank};
pub use names::set as set_condition;
pub use upkeep::{CLEANUP, Custom, run};
pub use version::Version;
