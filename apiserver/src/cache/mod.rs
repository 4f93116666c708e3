//! The watch cache: what the store holds, in memory, with a window of history. It is never the authority: every write is decided by
//! a conditional transaction in the store.

pub mod feed;
pub mod object;
pub mod resource;
pub mod selector;
pub mod timeline;
pub mod watcher;

pub use feed::{Behind, Group};
pub use object::{EventType, Object};
pub use resource::{
    Event, Follower, From, HistoryLimits, Resource, Snapshot, Subscription, TooOld, Tree, in_namespace,
};
pub use selector::Selection;
pub use watcher::Dispatch;
