//! What the namespace controller looks at. Decides nothing.

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::Header;

use crate::objects::Namespace;

/// A namespace that is being deleted, and what is left in it, read live.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub namespace: Namespace,
    pub remaining: Vec<Remaining>,
    /// Kinds that could not be listed, with the reason.
    pub failures: Vec<String>,
    /// Why the last attempt to delete something failed.
    pub delete_failure: Option<String>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Remaining {
    pub kind: &'static Kind,
    pub objects: Vec<Header>,
    /// There are more than were listed.
    pub more: bool,
}
