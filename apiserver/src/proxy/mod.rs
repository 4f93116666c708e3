//! `pods/proxy`, `services/proxy` and `nodes/proxy`: a request goes on to what a pod, a service or a machine serves, and its answer
//! comes back as it is, but for addresses that would lead past the proxy.
//!
//! Decides nothing about what is asked. Redirects are the client's to follow: they are passed on, never followed here.

mod dial;
mod html;
mod location;
mod target;

use crate::auth::UserInfo;
use crate::connect::agent::{self, KubeletClient, authority};
use crate::connect::forward::{self, Answer};
use crate::core::Core;
use crate::http::body::Body;
use crate::http::target::ResourcePath;
use crate::http::{Outcome, Request, Response, empty};
use crate::shares::Share;
use crate::streams::upgrade::is_upgrade;
use bytes::Bytes;
use dial::Transport;
use futures::StreamExt;
use gantry_apimachinery::status::Status;
use html::Rewriter;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use http::{Method, StatusCode};
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use hyper::body::Frame;
use location::{Named, Paths, Rewrite};

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// What a backend allows other sites is not this server's to allow.
const CORS: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Answers a request for the subresource `proxy`. `entropy` picks among the pods of a service.
pub async fn serve(
    core: &Core,
    user: &UserInfo,
    at: &ResourcePath,
    entropy: u64,
    request: Request,
) -> Outcome<Response> {
    if !METHODS.contains(request.method()) {
        return Err(Status::method_not_allowed().into());
    }
    let parts = if at.namespace.is_empty() { 5 } else { 7 };
    let paths = Paths::split(request.uri().path(), parts);
    let place = find(core, at, entropy).await?;
    let upgrades = is_upgrade(request.headers());
    if paths.rest.is_empty() && !upgrades && [Method::GET, Method::HEAD].contains(request.method()) {
        return to_root(&request);
    }
    let slot = core.sessions.enter(user)?;
    let (host, transport) = place.dial(core).await.map_err(|error| unreachable(upgrades, error.as_ref()))?;
    let request = outgoing(request, &paths, upgrades)?;
    let called = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let called = location::called(request.uri(), called);
    let target = location::target(&paths.rest, request.uri().query());
    let sent = forward::send(transport, &target, None, request).await;
    let answer = sent.map_err(|error| unreachable(upgrades, error.as_ref()))?;
    if upgrades && !answer.switches() && answer.response.status().as_u16() < 400 {
        let code = answer.response.status().as_u16();
        return Err(Status::internal(format!("invalid upgrade response: status code {code}")).into());
    }
    let rewrite = Rewrite { prefix: paths.prefix, hosts: [host, called] };
    Ok(incoming(answer, rewrite, slot))
}

fn unreachable(upgrades: bool, error: &(dyn std::error::Error + 'static)) -> Status {
    if upgrades {
        return Status::internal(format!("error dialing backend: {error}"));
    }
    Status::service_unavailable(format!("error trying to reach service: {error}"))
}

/// A page at the root is asked for with a slash, or what it refers to is looked for one level too high.
fn to_root(request: &Request) -> Outcome<Response> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", request.uri().path());
    let mut response = http::Response::new(empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&location).map_err(Status::internal)?);
    Ok(response)
}

/// Where a request goes.
enum Place {
    Pod(target::Target),
    /// A machine's agent.
    Agent(agent::Agent),
    /// Another port of a machine.
    Machine {
        https: bool,
        host: String,
        port: u16,
    },
}

async fn find(core: &Core, at: &ResourcePath, entropy: u64) -> Outcome<Place> {
    match at.resource.as_str() {
        "pods" => target::of_pod(core, &at.namespace, &at.name).await.map(Place::Pod),
        "services" => target::of_service(core, &at.namespace, &at.name, entropy).await.map(Place::Pod),
        _ => machine(core, &at.name),
    }
}

fn machine(core: &Core, id: &str) -> Outcome<Place> {
    let named = Named::read(id).ok_or_else(|| Status::bad_request(format!("invalid node request {id:?}")))?;
    let agent = agent::of_node(core, &named.name)?;
    if named.port.is_empty() {
        return Ok(Place::Agent(agent));
    }
    let port = named.port.parse::<u16>().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| Status::bad_request(format!("{:?} is not a port of a node", named.port)))?;
    if port == agent.port {
        return Ok(Place::Agent(agent));
    }
    if agent.host.parse().is_ok_and(|ip| !target::reachable(ip)) {
        return Err(target::refused().into());
    }
    Ok(Place::Machine { https: named.https, host: agent.host, port })
}

impl Place {
    /// How the backend is called, and a connection to it.
    async fn dial(&self, core: &Core) -> Result<(String, Transport), crate::http::body::BoxError> {
        match self {
            Self::Pod(target) => {
                let host = target.ip.to_string();
                let tcp = dial::pod(core, target).await?;
                let transport = if target.https { dial::tls(&host, tcp).await? } else { tcp };
                Ok((authority(&host, target.port), transport))
            }
            Self::Agent(agent) => {
                let client = KubeletClient::of(core).map_err(|status| status.message)?;
                let stream = client.dial(agent).await.map_err(|status| status.message)?;
                Ok((agent.to_string(), Box::new(stream)))
            }
            Self::Machine { https, host, port } => {
                let tcp = dial::machine(host, *port).await?;
                let transport = if *https { dial::tls(host, tcp).await? } else { tcp };
                Ok((authority(host, *port), transport))
            }
        }
    }
}

fn outgoing(mut request: Request, paths: &Paths, upgrades: bool) -> Outcome<Request> {
    let outside = format!("{}{}", paths.prefix, paths.rest);
    let headers = request.headers_mut();
    headers.insert(FORWARDED_URI, HeaderValue::from_str(&outside).map_err(Status::internal)?);
    // A page is rewritten as it streams by; compressed it could not be.
    let pages =
        headers.get_all(ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|text| text.contains("text/html")));
    if pages && !upgrades {
        headers.remove(ACCEPT_ENCODING);
    }
    Ok(request)
}

/// A backend's answer as the client gets it.
fn incoming(answer: Answer, rewrite: Rewrite, slot: Share) -> Response {
    let mut response = answer.pass_on(slot);
    let headers = response.headers_mut();
    for name in CORS {
        headers.remove(name);
    }
    let redirects = headers.get(LOCATION).and_then(|location| location.to_str().ok()).map(|to| rewrite.address(to));
    if let Some(location) = redirects {
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
        return response;
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS || !is_page(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    http::Response::from_parts(parts, rewritten(body, rewrite))
}

fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/html") && !headers.contains_key(CONTENT_ENCODING)
}

const PAGE_SLICE: usize = 1 << 10;
const PAGE_PIECE: usize = 64 << 10;

fn rewritten(body: Body, rewrite: Rewrite) -> Body {
    let rewriter = Rewriter::new(move |address: &str| rewrite.address(address));
    let pieces = futures::stream::unfold(Some((BodyDataStream::new(body), rewriter, Bytes::new())), |state| async {
        let (mut data, mut rewriter, mut rest) = state?;
        let mut out = Vec::new();
        loop {
            // Each address grows: a piece is taken in slices, so that what it becomes stays small.
            while !rest.is_empty() && out.len() < PAGE_PIECE {
                let slice = rest.split_to(rest.len().min(PAGE_SLICE));
                rewriter.push(&slice, &mut out);
            }
            if !out.is_empty() {
                return Some((Ok(Frame::data(out.into())), Some((data, rewriter, rest))));
            }
            match data.next().await {
                Some(Ok(piece)) => rest = piece,
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    rewriter.finish(&mut out);
                    return Some((Ok(Frame::data(out.into())), None));
                }
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}
