//! What is tunnelled to a container: the protocols of its clients, and how they are carried to the node agent.

pub mod channels;
pub mod command;
pub mod relay;
pub mod spdy;
pub mod tunnel;
pub mod upgrade;
pub mod websocket;

use std::time::Duration;

/// A client that takes nothing of what is sent to it for so long is given up: as long as a kernel waits for a peer that acknowledges
/// nothing.
pub const STALLED: Duration = Duration::from_secs(15 * 60);
