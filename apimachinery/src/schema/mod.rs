//! Decides what the fields of every built-in kind are: names, types, list rules, merge keys and protobuf numbers. It
//! never knows a kind's meaning; what a schema cannot say is a strategy of the API server.

mod build;
pub mod declare;
pub mod decode;
mod table;
mod types;

pub use build::{Builder, Built, Member};
pub use table::Schema;
pub use types::{Field, ListType, PatchStrategy, Shape, Type};
