//! SPDY/3.1, which carries exec, attach and port-forward. A pure core (`frame`, `headers`, `session`) and a task that moves its bytes
//! (`connection`). Decides nothing about what streams are for.

mod dictionary;
mod frame;
mod headers;
mod session;
mod stream;

mod connection;

pub use connection::{Connection, Limits};
pub use frame::reset;
pub use headers::Headers;
#[cfg(test)]
pub use headers::value;
pub use session::Role;
pub use stream::{Gone, Part, Receiver, Sender, Stream};
