//! How a request can fail, as values that a loop can match on. Never retries.

use gantry_apimachinery::status::Status;

/// Why a request failed. Only [`ApiError::is_transient`] ones are worth sending again unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 404: the caller decides whether that is its wish come true.
    #[error("{}", .0.message)]
    NotFound(Box<Status>),
    /// 409 on a create: the caller reads the object and goes on.
    #[error("{}", .0.message)]
    AlreadyExists(Box<Status>),
    /// 409: the caller reads again and decides again.
    #[error("{}", .0.message)]
    Conflict(Box<Status>),
    /// 422: repeating it changes nothing.
    #[error("{}", .0.message)]
    Invalid(Box<Status>),
    /// 410: the version asked for is history; list again.
    #[error("{}", .0.message)]
    Gone(Box<Status>),
    /// 401 or 403.
    #[error("{}", .0.message)]
    Forbidden(Box<Status>),
    /// 429: the caller waits `retry_after_s` and tries again.
    #[error("{}", .status.message)]
    TooManyRequests { retry_after_s: u64, status: Box<Status> },
    /// Any other answer of the server.
    #[error("{}", .0.message)]
    Other(Box<Status>),
    /// No answer: whether the write happened is unknown.
    #[error("the API server did not answer")]
    Transport(#[source] TransportError),
    /// The answer is not what the caller's type expects; repeating it changes nothing.
    #[error("the API server's answer cannot be read")]
    Decode(#[source] serde_json::Error),
    /// The request's body cannot be written as JSON.
    #[error("the request cannot be written")]
    Encode(#[source] serde_json::Error),
}

/// What broke below HTTP.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    #[error("the client cannot be set up")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the request cannot be built")]
    Request(#[source] http::Error),
    #[error("sending failed")]
    Send(#[source] Box<kube::Error>),
    #[error("reading the answer failed")]
    Body(#[source] Box<kube::Error>),
    #[error("nothing came within {0:?}")]
    TimedOut(std::time::Duration),
    #[error("one line of a watch is longer than {0} bytes")]
    LineTooLong(usize),
}

impl From<TransportError> for ApiError {
    fn from(error: TransportError) -> Self {
        ApiError::Transport(error)
    }
}

impl ApiError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, ApiError::NotFound(_))
    }

    pub fn is_already_exists(&self) -> bool {
        matches!(self, ApiError::AlreadyExists(_))
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self, ApiError::Conflict(_))
    }

    pub fn is_invalid(&self) -> bool {
        matches!(self, ApiError::Invalid(_))
    }

    pub fn is_gone(&self) -> bool {
        matches!(self, ApiError::Gone(_))
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self, ApiError::Forbidden(_))
    }

    /// The same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            ApiError::Transport(error) => !matches!(error, TransportError::Setup(_) | TransportError::Request(_)),
            ApiError::TooManyRequests { .. } => true,
            ApiError::Other(status) => status.code >= 500,
            _ => false,
        }
    }

    /// A write may have happened all the same: nobody can say before the object is read again.
    pub fn is_unknown(&self) -> bool {
        match self {
            ApiError::Transport(error) => !matches!(error, TransportError::Setup(_) | TransportError::Request(_)),
            ApiError::Other(status) => status.code >= 500,
            ApiError::Decode(_) => true,
            _ => false,
        }
    }

    /// The server's answer, if there was one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            ApiError::NotFound(status)
            | ApiError::AlreadyExists(status)
            | ApiError::Conflict(status)
            | ApiError::Invalid(status)
            | ApiError::Gone(status)
            | ApiError::Forbidden(status)
            | ApiError::TooManyRequests { status, .. }
            | ApiError::Other(status) => Some(status),
            ApiError::Transport(_) | ApiError::Decode(_) | ApiError::Encode(_) => None,
        }
    }

    /// The whole chain of causes on one line, for the place that handles it.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes, each once, separated by colons.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
