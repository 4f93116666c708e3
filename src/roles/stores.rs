//! The three store groups of this process.

use gantry_apiserver::Stores;
use gantry_store::MemStore;
use std::sync::Arc;

pub fn open() -> Stores {
    Stores { state: Arc::new(MemStore::new()), leases: Arc::new(MemStore::new()), events: Arc::new(MemStore::new()) }
}
