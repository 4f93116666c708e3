//! The edge of all controllers: shared informers, what wakes which key, sending a plan, and what is remembered between two
//! looks at a key. Decides nothing about objects: that is each controller's `core`.

mod custom;
mod drive;
mod execute;
mod feeds;
mod informers;
mod memory;

use std::sync::Arc;

use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::meta::Object;
use gantry_client::Client;

pub use drive::{Controller, drive, rest};
pub use feeds::{Feeds, Seen};
pub use informers::{HELD_BY_NOBODY, Informers, NODE, OWNER, SERVICE, orphans};
pub use memory::{Failure, Memory};

/// What every controller works with.
pub struct Env {
    pub client: Client,
    pub informers: Informers,
    pub clock: Arc<dyn Clock>,
    pub config: crate::Config,
}

/// Which object a loop looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn of(object: &impl Object) -> Self {
        Key::new(object.namespace(), object.name())
    }

    /// The one key of a loop that looks at everything at once.
    pub fn all() -> Self {
        Key::default()
    }
}
