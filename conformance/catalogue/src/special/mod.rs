//! Behaviours that steps cannot say: the table of their functions. Their ids, words and states stand in the catalogue's
//! files like everybody else's.

use crate::exchange::Failure;
use crate::run::Session;
use futures::future::BoxFuture;

/// A behaviour as code: an error says what did not hold.
pub type Function = for<'s> fn(&'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>>;

const FUNCTIONS: &[(&str, Function)] = &[];

pub fn find(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}
