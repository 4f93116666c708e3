//! Hands a request on to the server of its group version. Decides which headers go along and as whom the request comes; bodies and
//! what is spoken in an upgraded connection pass through untouched, redirects are not followed.

use super::Remote;
use crate::auth::UserInfo;
use crate::connect::Sessions;
use crate::connect::forward::join;
use crate::http::body::{boxed, text};
use crate::http::{Outcome, Request, Response};
use crate::outbound::with_sources;
use gantry_apimachinery::status::Status;
use http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, UPGRADE};
use http::{StatusCode, Uri};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const EXTRA: &str = "x-remote-extra-";
/// What a client says of itself in these is its own word.
const OURS: &str = "x-remote-";
const IMPERSONATION: &str = "impersonate-";
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The caller was allowed this; the answer is the other server's. An upgraded connection is one of the user's sessions.
pub async fn forward(remote: &Remote, sessions: &Sessions, user: &UserInfo, mut request: Request) -> Outcome<Response> {
    if !remote.seen.load().available {
        return Ok(text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n"));
    }
    let client = remote
        .client
        .as_ref()
        .map_err(|why| Status::internal(format!("APIService {}.{}: {why}", remote.version, remote.group)))?;
    let upgrades = request.headers().contains_key(UPGRADE);
    let slot = upgrades.then(|| sessions.enter(user)).transpose()?;
    let client_side = upgrades.then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let mut onward = http::Request::new(body);
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = address(remote, &parts.uri)?;
    copy_headers(&parts.headers, onward.headers_mut(), upgrades, true);
    identify(onward.headers_mut(), user).map_err(Status::internal)?;
    let mut response = match client.request(onward).await {
        Ok(response) => response,
        Err(error) => {
            let why = format!("error trying to reach service: {}\n", with_sources(&error));
            return Ok(text(StatusCode::SERVICE_UNAVAILABLE, why));
        }
    };
    if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
        let why = "the backend attempted to redirect this request, which is not permitted";
        return Ok(text(StatusCode::BAD_GATEWAY, why));
    }
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switches && let Some(client_side) = client_side {
        let backend = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            join(client_side, backend).await;
            drop(slot);
        });
    }
    let (parts, body) = response.into_parts();
    let mut answer = http::Response::new(if switches { crate::http::empty() } else { boxed(body) });
    *answer.status_mut() = parts.status;
    copy_headers(&parts.headers, answer.headers_mut(), switches, false);
    Ok(answer)
}

/// The same path at the other server.
fn address(remote: &Remote, uri: &Uri) -> Outcome<Uri> {
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let uri = format!("{}{path}", remote.place.url()).parse();
    uri.map_err(|error: http::uri::InvalidUri| Status::bad_request(error.to_string()).into())
}

fn copy_headers(from: &HeaderMap, to: &mut HeaderMap, upgrades: bool, onward: bool) {
    let named = from.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> = named.flat_map(|text| text.split(',')).map(|name| name.trim().to_lowercase()).collect();
    for (name, value) in from {
        let text = name.as_str();
        let ends_here = HOP_BY_HOP.contains(&text) || named.iter().any(|other| other == text);
        let secret = name == AUTHORIZATION || name == HOST || text.starts_with(OURS) || text.starts_with(IMPERSONATION);
        let switch = upgrades && name == UPGRADE;
        if switch || !(ends_here || onward && secret) {
            to.append(name.clone(), value.clone());
        }
    }
    if upgrades {
        to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Says whom a request comes from, as `requestheader` authentication reads it.
pub fn identify(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), String> {
    let value = |text: &str| {
        // Who reads a header cuts blanks off: it would be another name there.
        if text.is_empty() || text.trim() != text {
            return Err(format!("{text:?} cannot be told in a header"));
        }
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| format!("{text:?} cannot be told in a header"))
    };
    headers.insert(USER, value(&user.username)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{EXTRA}{}", escaped(key)).as_bytes());
        let name = name.map_err(|_| format!("{key:?} cannot be told in a header"))?;
        for one in values {
            headers.append(name.clone(), value(one)?);
        }
    }
    Ok(())
}

/// As Kubernetes writes keys in header names: what may not stand there, percent-encoded.
fn escaped(key: &str) -> String {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let mut text = String::new();
    for byte in key.to_lowercase().bytes() {
        if token(byte) { text.push(char::from(byte)) } else { text.push_str(&format!("%{byte:02X}")) }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_a_client_says_of_itself_does_not_go_along() {
        let from = headers(&[
            ("accept", "application/json"),
            ("authorization", "Bearer x"),
            ("x-remote-user", "root"),
            ("x-remote-extra-a", "b"),
            ("impersonate-user", "root"),
            ("connection", "x-odd, keep-alive"),
            ("x-odd", "1"),
            ("upgrade", "websocket"),
        ]);
        let mut to = HeaderMap::new();
        copy_headers(&from, &mut to, false, true);
        assert_eq!(to, headers(&[("accept", "application/json")]));
        let mut to = HeaderMap::new();
        copy_headers(&from, &mut to, true, true);
        let expect = [("accept", "application/json"), ("upgrade", "websocket"), ("connection", "Upgrade")];
        assert_eq!(to, headers(&expect));
    }

    #[test]
    fn identities_are_told_whole() {
        let mut user = UserInfo::new("jane", &["a", "b"]);
        user.uid = "7".into();
        user.extra.insert("Example.org/scopes%".into(), vec!["x".into(), "y".into()]);
        let mut headers = HeaderMap::new();
        identify(&mut headers, &user).unwrap();
        let texts = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(texts("x-remote-user"), ["jane"]);
        assert_eq!(texts("x-remote-uid"), ["7"]);
        assert_eq!(texts("x-remote-group"), ["a", "b", "system:authenticated"]);
        assert_eq!(texts("x-remote-extra-example.org%2fscopes%25"), ["x", "y"]);
        let odd = UserInfo::new("a\nb", &[]);
        assert!(identify(&mut HeaderMap::new(), &odd).is_err());
    }
}
