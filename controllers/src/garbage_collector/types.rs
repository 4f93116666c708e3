//! What the garbage collector looks at. Decides nothing.

use gantry_apimachinery::meta::{ObjectMeta, OwnerReference};

use super::graph::Item;

/// One object, its owners as they are now, and what it owns.
#[derive(Clone, Debug)]
pub struct Observed {
    pub item: Item,
    /// The object as the server has it this moment. Asked for only when it may be deleted.
    pub live: Option<ObjectMeta>,
    pub owners: Vec<(OwnerReference, Owner)>,
    pub dependents: Vec<Item>,
}

/// What became of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is there (or nobody can tell): its dependents stay.
    There,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// The server says that there is no such object.
    Gone,
}
