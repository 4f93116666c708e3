//! What is tunnelled to a container: the protocols of its clients, and how they are carried to the node agent.

pub mod channels;
pub mod command;
pub mod relay;
pub mod spdy;
pub mod tunnel;
pub mod upgrade;
pub mod websocket;
