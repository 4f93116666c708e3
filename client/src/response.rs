//! Turns the server's answer into a value or an [`ApiError`]. Never sends anything.

use bytes::Bytes;
use gantry_apimachinery::status::{Reason, Status};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::options::List;

/// The error that an answer outside 2xx stands for.
pub(crate) fn failure(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let retry_after_s =
        headers.get(http::header::RETRY_AFTER).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    classify(read_status(code, body), retry_after_s)
}

/// A `Status` names its own error; what stands in front of the server (a proxy) may answer with plain text.
fn read_status(code: StatusCode, body: &[u8]) -> Status {
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.code != 0
    {
        return status;
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
    let message = format!("the server answered {code}: {}", text.trim());
    Status { code: code.as_u16(), message, status: "Failure".to_owned(), ..Status::default() }
}

pub(crate) fn classify(status: Status, retry_after_s: Option<u64>) -> ApiError {
    let already_exists = status.reason == Reason::AlreadyExists;
    let hinted = u64::from(status.retry_after_s().max(1));
    let status = Box::new(status);
    match status.code {
        404 => ApiError::NotFound(status),
        409 if already_exists => ApiError::AlreadyExists(status),
        409 => ApiError::Conflict(status),
        422 => ApiError::Invalid(status),
        410 => ApiError::Gone(status),
        401 | 403 => ApiError::Forbidden(status),
        429 => ApiError::TooManyRequests { retry_after_s: retry_after_s.unwrap_or(hinted), status },
        _ => ApiError::Other(status),
    }
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(ApiError::Decode)
}

/// A list whose items are still text, so that one strange item does not hide the others.
pub(crate) struct RawList {
    body: Bytes,
}

#[derive(Deserialize)]
struct ListForm<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// What a list says of itself.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    pub resource_version: String,
    #[serde(rename = "continue")]
    pub continue_token: String,
}

impl RawList {
    pub fn new(body: Bytes) -> Self {
        RawList { body }
    }

    /// Every item must decode.
    pub fn strict<T: DeserializeOwned>(&self) -> Result<List<T>, ApiError> {
        self.read(|item| serde_json::from_str(item.get()).map(Some).map_err(ApiError::Decode))
    }

    /// Items for which `item` gives nothing are left out.
    pub fn read<T>(&self, item: impl Fn(&RawValue) -> Result<Option<T>, ApiError>) -> Result<List<T>, ApiError> {
        let form: ListForm = serde_json::from_slice(&self.body).map_err(ApiError::Decode)?;
        let mut items = Vec::with_capacity(form.items.as_ref().map_or(0, Vec::len));
        for raw in form.items.unwrap_or_default() {
            items.extend(item(raw)?);
        }
        Ok(List {
            items,
            resource_version: form.metadata.resource_version,
            continue_token: form.metadata.continue_token,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_the_error_they_stand_for() {
        let check = |code: u16, body: &str, expect: fn(&ApiError) -> bool| {
            let code = StatusCode::from_u16(code).unwrap();
            let error = failure(code, &HeaderMap::new(), body.as_bytes());
            assert!(expect(&error), "{code} {body}: {error:?}");
        };
        let status = |code: u16, reason: &str| {
            format!(
                r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"m","reason":"{reason}","code":{code}}}"#
            )
        };
        check(404, &status(404, "NotFound"), ApiError::is_not_found);
        check(409, &status(409, "AlreadyExists"), ApiError::is_already_exists);
        check(409, &status(409, "Conflict"), ApiError::is_conflict);
        check(410, &status(410, "Expired"), ApiError::is_gone);
        check(422, &status(422, "Invalid"), ApiError::is_invalid);
        check(401, &status(401, "Unauthorized"), ApiError::is_forbidden);
        check(500, &status(500, "InternalError"), ApiError::is_transient);
        check(502, "<html>bad gateway</html>", ApiError::is_transient);
        check(404, "404 page not found", ApiError::is_not_found);
        check(429, "busy", |e| matches!(e, ApiError::TooManyRequests { retry_after_s: 1, .. }));
    }

    #[test]
    fn a_strange_item_does_not_hide_the_others() {
        let list = RawList::new(Bytes::from_static(
            br#"{"kind":"L","metadata":{"resourceVersion":"9","continue":"c"},"items":[1,"x",3]}"#,
        ));
        assert!(list.strict::<u32>().is_err());
        let read = list.read(|item| Ok(serde_json::from_str::<u32>(item.get()).ok())).unwrap();
        assert_eq!((read.items, read.resource_version.as_str(), read.continue_token.as_str()), (vec![1, 3], "9", "c"));
        let empty = RawList::new(Bytes::from_static(br#"{"metadata":{},"items":null}"#));
        assert!(empty.strict::<u32>().unwrap().items.is_empty());
    }
}
