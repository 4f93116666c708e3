//! Decides which YAML dialect is read: 1.1 scalars as `sigs.k8s.io/yaml` reads them (`yes`, `on`, `0644`), duplicates
//! passed on to be reported, bounded depth and size. It never knows a schema.

use super::DecodeError;
use serde_saphyr::{Budget, DuplicateKeyPolicy, Options};

/// Documents are capped at 3 MiB by the API server; a node takes at least a byte or two.
const MAX_NODES: usize = 1 << 20;
const MAX_DEPTH: usize = 128;

pub(super) fn read<'de, T>(
    body: &'de [u8],
    visit: impl for<'e> FnOnce(serde_saphyr::Deserializer<'de, 'e>) -> Result<T, serde_saphyr::Error>,
) -> Result<T, DecodeError> {
    serde_saphyr::with_deserializer_from_slice_with_options(body, options(), visit).map_err(|error| {
        let at = error.location().map_or((1, 1), |at| (at.line() as usize, at.column() as usize));
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default().to_string();
        DecodeError::Syntax { line: at.0, column: at.1, message: format!("yaml: {message}") }
    })
}

fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_nodes = MAX_NODES;
    budget.max_events = 2 * MAX_NODES;
    budget.max_depth = MAX_DEPTH;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    options.legacy_octal_numbers = true;
    options.strict_booleans = false;
    options.with_snippet = false;
    options
}
