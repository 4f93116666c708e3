//! What may go wrong with an expression, before it runs and while it does.

/// An expression that cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The expression's own doing: a missing key, a division by zero.
    #[error("{0}")]
    Failed(String),
    /// It would take more steps than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooExpensive,
}

impl Error {
    pub fn failed(why: impl Into<String>) -> Error {
        Error::Failed(why.into())
    }

    pub(super) fn no_overload() -> Error {
        Error::failed("no such overload")
    }
}
