//! `metav1.Status` and the field errors inside it, worded as kubectl users know them.
//!
//! It decides the code, reason and words of each kind of refusal; it never decides that something is refused.

mod field_errors;
#[cfg(test)]
mod tests;

pub use field_errors::{FieldError, FieldErrorKind, FieldErrors, supported};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The answer to every request that failed, and to some that succeeded (deletes).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub kind: String,
    pub api_version: String,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    pub code: u16,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, or the kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// `metav1.StatusCause`: one thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

macro_rules! reasons {
    ($($name:ident $code:literal,)*) => {
        /// `metav1.StatusReason`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum Reason {
            #[default]
            Unknown,
            $($name,)*
        }
        impl Reason {
            pub fn as_str(self) -> &'static str {
                match self {
                    Reason::Unknown => "",
                    $(Reason::$name => stringify!($name),)*
                }
            }
            /// The HTTP status code that goes with this reason.
            pub fn code(self) -> u16 {
                match self {
                    Reason::Unknown => 500,
                    $(Reason::$name => $code,)*
                }
            }
            fn from_text(s: &str) -> Self {
                match s {
                    $(stringify!($name) => Reason::$name,)*
                    _ => Reason::Unknown,
                }
            }
        }
    };
}

reasons! {
    Unauthorized 401,
    Forbidden 403,
    NotFound 404,
    AlreadyExists 409,
    Conflict 409,
    Gone 410,
    Invalid 422,
    ServerTimeout 500,
    StoreReadError 500,
    Timeout 504,
    TooManyRequests 429,
    BadRequest 400,
    MethodNotAllowed 405,
    NotAcceptable 406,
    RequestEntityTooLarge 413,
    UnsupportedMediaType 415,
    InternalError 500,
    Expired 410,
    ServiceUnavailable 503,
}

impl Reason {
    fn is_unknown(&self) -> bool {
        *self == Reason::Unknown
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(|s| Self::from_text(&s))
    }
}

impl Default for Status {
    fn default() -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: serde_json::Map::new(),
            status: String::new(),
            message: String::new(),
            reason: Reason::Unknown,
            details: None,
            code: 0,
        }
    }
}

/// The resource as messages name it: `pods`, `deployments.apps`.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Splits `deployments.apps` into resource and group.
fn split_resource(resource: &str) -> (&str, &str) {
    resource.split_once('.').unwrap_or((resource, ""))
}

fn about(resource: &str, name: &str) -> Option<Details> {
    let (kind, group) = split_resource(resource);
    Some(Details { name: name.to_owned(), group: group.to_owned(), kind: kind.to_owned(), ..Details::default() })
}

impl Status {
    pub fn failure(reason: Reason, message: impl Into<String>, details: Option<Details>) -> Self {
        Self {
            status: "Failure".to_owned(),
            message: message.into(),
            reason,
            details,
            code: reason.code(),
            ..Self::default()
        }
    }

    /// What a delete that left nothing behind answers.
    pub fn success(details: Option<Details>) -> Self {
        Self { status: "Success".to_owned(), details, code: 200, ..Self::default() }
    }

    pub fn code(&self) -> u16 {
        self.code
    }
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }
    /// After how many seconds the client may try again; 0 when the server did not say.
    pub fn retry_after_s(&self) -> u32 {
        self.details.as_ref().map_or(0, |d| d.retry_after_seconds)
    }
    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |d| &d.causes)
    }

    // `resource` is plural and qualified by its group where it has one: `pods`, `deployments.apps` (see `Kind::resource`).

    pub fn not_found(resource: &str, name: &str) -> Self {
        Self::failure(Reason::NotFound, format!("{resource} {name:?} not found"), about(resource, name))
    }
    /// No such path.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(Reason::NotFound, message, Some(Details::default()))
    }
    pub fn already_exists(resource: &str, name: &str) -> Self {
        Self::failure(Reason::AlreadyExists, format!("{resource} {name:?} already exists"), about(resource, name))
    }
    /// `generateName` found only taken names.
    pub fn generate_name_conflict(resource: &str, name: &str) -> Self {
        let message = format!(
            "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
        );
        Self::failure(Reason::AlreadyExists, message, about(resource, name))
    }
    pub fn conflict_because(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(Reason::Conflict, message, about(resource, name))
    }
    /// The resource version sent is not the current one.
    pub fn conflict(resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict_because(resource, name, why)
    }
    /// `kind` is qualified by its group where it has one: `Pod`, `Deployment.apps` (see `Kind::qualified_kind`).
    pub fn invalid(kind: &str, name: &str, errors: &FieldErrors) -> Self {
        let message = format!("{kind} {name:?} is invalid: {errors}");
        let details = about(kind, name).map(|d| Details { causes: errors.causes(), ..d });
        Self::failure(Reason::Invalid, message, details)
    }
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (r, "") => format!("{r} is forbidden: {why}"),
            (r, n) => format!("{r} {n:?} is forbidden: {why}"),
        };
        Self::failure(Reason::Forbidden, message, about(resource, name))
    }
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized", None)
    }
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message, None)
    }
    /// A resource version or continue token from before the kept history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message, None)
    }
    pub fn too_many_requests(retry_after_s: u32) -> Self {
        let details = Details { retry_after_seconds: retry_after_s, ..Details::default() };
        let message = "the server has received too many requests and has asked us to try again later";
        Self::failure(Reason::TooManyRequests, message, Some(details))
    }
    pub fn internal(error: impl fmt::Display) -> Self {
        let cause = Cause { message: error.to_string(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::failure(Reason::InternalError, format!("Internal error occurred: {error}"), Some(details))
    }
    pub fn timeout(message: &str, retry_after_s: u32) -> Self {
        let details = Details { retry_after_seconds: retry_after_s, ..Details::default() };
        Self::failure(Reason::Timeout, format!("Timeout: {message}"), Some(details))
    }
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message, None)
    }
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(Reason::MethodNotAllowed, message, Some(Details::default()))
    }
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(Reason::NotAcceptable, message, None)
    }
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::failure(Reason::UnsupportedMediaType, message, None)
    }
    pub fn too_large(message: impl fmt::Display) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"), None)
    }
    /// The object itself is over what the store holds.
    pub fn request_too_large(limit_bytes: usize) -> Self {
        Self::too_large(format!("limit is {limit_bytes}"))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Unknown => f.write_str(&self.message),
            r => write!(f, "{} ({})", self.message, r.as_str()),
        }
    }
}

impl std::error::Error for Status {}

/// `kind.group`, or `kind` in the core group: how `Invalid` names what it is about.
pub fn qualified_kind(group: &str, kind: &str) -> String {
    qualified(group, kind)
}
