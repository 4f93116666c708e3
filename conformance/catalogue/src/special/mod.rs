//! Behaviours that steps cannot say: the table of their functions. Their ids, words and states stand in the catalogue's
//! files like everybody else's.

mod certificates;
mod discovery;
mod wire;

use crate::exchange::Failure;
use crate::run::Session;
use futures::future::BoxFuture;

/// A behaviour as code: an error says what did not hold.
pub type Function = for<'s> fn(&'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>>;

const FUNCTIONS: &[(&str, Function)] = &[
    ("csr_approval", certificates::approval),
    ("discovery_everything_answers", discovery::everything_answers),
    ("discovery_plain_is_aggregated", discovery::plain_is_aggregated),
    ("discovery_kinds_of_1_35", discovery::kinds_of_1_35),
    ("openapi_references_lead_somewhere", discovery::references_lead_somewhere),
    ("wire_slow_body", wire::slow_body),
    ("wire_not_http", wire::not_http),
    ("wire_http1", wire::http1),
    ("wire_silent_watcher", wire::silent_watcher),
    ("wire_cancelled_requests", wire::cancelled_requests),
    ("wire_many_headers", wire::many_headers),
];

pub fn find(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

/// Something that a function saw and that is not as it should be.
fn broken(what: impl Into<String>, why: impl Into<String>) -> Failure {
    Failure::of_step(what, why)
}
