//! A request's way through the gates: identify → authenticate → authorise → fair queue → the verb → encode. Decides the order, and
//! how refusals become responses; never what a verb does.

use crate::aggregation::{Remote, proxy};
use crate::audit::{self, Record};
use crate::auth::UserInfo;
use crate::auth::authn::authenticate;
use crate::auth::authz::{Attributes, Decision, forbidden};
use crate::auth::impersonation;
use crate::auth::peers::Peer;
use crate::core::Core;
use crate::endpoints;
use crate::fairness::{Asked, Flow, Rejected, Seat, Work, until_sent, width};
use crate::http::body::{JSON, MAX_BODY, full, read, respond};
use crate::http::gzip;
use crate::http::negotiate::{self, Encoding};
use crate::http::pretty;
use crate::http::target::{ResourcePath, is_well_escaped};
use crate::http::{Failure, Outcome, Query, Request, Response, Target, Verb};
use crate::metrics::Labels;
use crate::rest::output::{PROTOBUF, message_type};
use crate::route;
use crate::shares::{Full, Share, Shares};
use crate::streams::upgrade::is_upgrade;
use bytes::Bytes;
use gantry_apimachinery::fields::FieldSelector;
use gantry_apimachinery::protobuf;
use gantry_apimachinery::status::Status;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// A request's body must be here by then.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// An answer begins by then, as Kubernetes' `--request-timeout`; what streams is exempt.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Ends watches when the server goes.
#[derive(Clone, Debug, Default)]
pub struct Lifetime {
    pub shutdown: CancellationToken,
}

/// One identified request.
pub struct Identified<'a> {
    pub core: &'a Core,
    pub user: &'a UserInfo,
    pub query: Query,
    pub lifetime: &'a Lifetime,
    pub audit: Option<&'a Record>,
}

/// Answers any request. `peer`: who is at the other end of the connection.
pub async fn handle(core: &Core, peer: &Peer, lifetime: &Lifetime, request: Request) -> Response {
    let started = Instant::now();
    let query = Query::parse(request.uri().query());
    let target = Target::parse(request.method(), request.uri().path(), &query);
    let head = request.method() == Method::HEAD;
    let asked = labels(core, &target, request.method(), &query);
    let encoding = negotiate::output(request.headers()).unwrap_or_default().encoding;
    let remote = core.aggregation.remote(&target);
    let lasts = long_running(&target, &query);
    let compresses = request.method() == Method::GET && remote.is_none() && !lasts && gzip::accepted(request.headers());
    let pretty = remote.is_none() && !lasts && pretty::wanted(&query, request.headers());
    let id = audit_id(request.headers());
    let (parts, body) = request.into_parts();
    let recorded = |audit: &Arc<_>| Arc::new(Record::new(Arc::clone(audit), &id, &parts, &target, peer.address));
    let record = core.audit.as_ref().map(recorded);
    let request = Request::from_parts(parts, body);
    let wanted = Wanted { query, target, remote, record: record.clone() };
    let (mut response, failed) = gates(core, peer, lifetime, wanted, request, encoding).await;
    if let Some(record) = &record {
        response = audit::answered(record, response, failed.as_deref(), lasts).await;
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("audit-id", id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if pretty {
        response = pretty::indented(response);
    }
    if compresses {
        response = gzip::compressed(response);
    }
    if head {
        *response.body_mut() = crate::http::empty();
    }
    let elapsed = started.elapsed().as_secs_f64() * 1_000.0;
    core.metrics.observe(asked, response.status().as_u16(), elapsed);
    response
}

/// What the metrics tell of a request. Nothing that a client can invent is in it.
fn labels(core: &Core, target: &Target, method: &Method, query: &Query) -> Labels {
    let of_method = Labels { component: "apiserver", verb: known_method(method), ..Labels::default() };
    let Target::Resource { verb, path } = target else { return of_method };
    let dry_run = if query.get("dryRun") == Some("All") { "All" } else { "" };
    let verb = match verb {
        Some(Verb::List) => "LIST",
        Some(Verb::Watch) => "WATCH",
        _ => of_method.verb,
    };
    let scope = match (path.name.is_empty() && verb != "POST", path.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    };
    let asked = Labels { dry_run, scope, verb, ..of_method };
    match core.registry().kind(&path.group, &path.version, &path.resource) {
        None => Labels { resource: "unknown", ..asked },
        Some(kind) => Labels {
            group: kind.group,
            resource: kind.plural,
            subresource: kind.subresource(&path.subresource).map_or("", |sub| sub.name),
            version: kind.version,
            ..asked
        },
    }
}

/// A client may invent methods; they all count as one.
fn known_method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// What a request is for.
struct Wanted {
    query: Query,
    target: Target,
    /// Who serves it, if it is not this server.
    remote: Option<Arc<Remote>>,
    record: Option<Arc<Record>>,
}

/// What the client calls its request, if that is short, or a name of ours.
fn audit_id(headers: &HeaderMap) -> String {
    const LONGEST: usize = 64;
    let said = headers.get("audit-id").and_then(|id| id.to_str().ok());
    let said = said.filter(|id| !id.is_empty() && id.len() <= LONGEST);
    said.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

/// The answer, and the failure that it tells of.
async fn gates(
    core: &Core,
    peer: &Peer,
    lifetime: &Lifetime,
    wanted: Wanted,
    request: Request,
    encoding: Encoding,
) -> (Response, Option<Failure>) {
    let Wanted { query, target, remote, record } = wanted;
    let audit = record.as_deref();
    let refused = |status: Failure| (failure_in(encoding, &status), Some(status));
    if !is_well_escaped(request.uri().path()) {
        return refused(Status::bad_request("the path has an escape that is none").into());
    }
    let user = match identify(core, request.headers(), peer, audit).await {
        Ok(user) => user,
        Err(status) => return refused(status),
    };
    // As the list will read it, so that nothing is allowed for another selection than the one that is answered.
    let selector = query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok()).unwrap_or_default();
    let method = match &target {
        Target::NonResource { .. } if request.method() == Method::HEAD => "get".to_owned(),
        Target::NonResource { .. } => request.method().as_str().to_lowercase(),
        Target::Resource { .. } => String::new(),
    };
    let what = match &target {
        Target::NonResource { path } => Attributes { verb: &method, path: Some(path), ..Attributes::default() },
        Target::Resource { verb, path } => attributes(verb.map_or("", Verb::as_str), path, &selector),
    };
    let flow = (!passes_by(&target)).then(|| core.fairness.classify(&user, &what));
    let outcome = async {
        authorise(core, &user, &target, &what, audit, is_upgrade(request.headers())).await?;
        // Before the queue: a client that sends slowly holds nobody's seat.
        let (request, body, _room) = match remote {
            Some(_) => (request, None, None),
            None => with_whole_body(&core.bodies, &user, &target, request).await?,
        };
        if let (Some(record), Some(body), Target::Resource { path, .. }) = (audit, body, &target) {
            audit::sent(record, core, path, request.headers(), &body);
        }
        // Held until the response's head is ready: a watch keeps its seat only while it starts.
        let seat = match &flow {
            Some(flow) => {
                let work = width::of(core, &target, &what, &query);
                let (verb, now) = (target.verb(), core.clock.now());
                let asked = Asked { user: &user.username, method: request.method(), uri: request.uri(), verb, now };
                Some(seat(core, flow, work, asked).await?)
            }
            None => None,
        };
        let identified = Identified { core, user: &user, query, lifetime, audit };
        let response = answer(identified, &target, remote.as_deref(), request).await?;
        Ok(match seat.filter(|_| target.verb() == Some(Verb::List)) {
            Some(seat) => until_sent(seat, response),
            None => response,
        })
    };
    let outcome: Outcome<Response> = outcome.await;
    let (mut response, failed) = outcome.map_or_else(refused, |response| (response, None));
    // A refusal names its flow too.
    if let Some(flow) = flow {
        flow.name_in(response.headers_mut());
    }
    (response, failed)
}

/// Who the request comes from: the caller, or whom the caller may be.
async fn identify(core: &Core, headers: &HeaderMap, peer: &Peer, audit: Option<&Record>) -> Outcome<UserInfo> {
    let caller = authenticate(core, headers, peer).await;
    if let Some(record) = audit {
        record.begin(caller.as_ref().ok());
    }
    let caller = caller?;
    let Some(other) = impersonation::asked(headers)? else { return Ok(caller) };
    for what in other.needed() {
        allowed(core, &caller, &what).await?;
    }
    let user = other.into_user();
    if let Some(record) = audit {
        record.impersonates(&user);
    }
    Ok(user)
}

/// Waits for a request's turn.
async fn seat(core: &Core, flow: &Flow, work: Work, asked: Asked<'_>) -> Outcome<Seat> {
    let turned_away = |rejected: Rejected| Status::too_many_requests(rejected.retry_after_s).into();
    core.fairness.enter(flow, work, asked).await.map_err(turned_away)
}

async fn answer(
    identified: Identified<'_>,
    target: &Target,
    remote: Option<&Remote>,
    request: Request,
) -> Outcome<Response> {
    let lasts = long_running(target, &identified.query);
    let answer = async {
        if let Some(remote) = remote {
            return proxy::forward(remote, &identified.core.sessions, identified.user, request).await;
        }
        match target {
            Target::NonResource { path } => {
                let Identified { core, query, .. } = &identified;
                endpoints::serve(core, request.method(), path, query, request.headers()).await
            }
            Target::Resource { path, .. } if path.subresource == "proxy" => {
                route::proxied(&identified, path, request).await
            }
            Target::Resource { verb, path } => {
                let verb = verb.ok_or_else(Status::method_not_allowed)?;
                route::resource(&identified, verb, path, request).await
            }
        }
    };
    if lasts {
        return answer.await;
    }
    let late = |_| Box::new(Status::timeout("request did not complete within the allotted timeout", 0));
    timeout(ANSWER_WITHIN, answer).await.map_err(late)?
}

/// Streams, which last as long as their client wants: watches, followed logs and what is tunnelled to a container.
fn long_running(target: &Target, query: &Query) -> bool {
    let Target::Resource { verb, path } = target else { return false };
    *verb == Some(Verb::Watch) || streams(path) || (path.subresource == "log" && query.flag("follow"))
}

/// As in Kubernetes: what a machine or a container answers is neither queued nor counted, except that a watch is while it begins.
fn passes_by(target: &Target) -> bool {
    let Target::Resource { path, .. } = target else { return false };
    tunnels(path) || ["log", "proxy"].contains(&path.subresource.as_str())
}

fn tunnels(path: &ResourcePath) -> bool {
    path.group.is_empty()
        && path.resource == "pods"
        && ["exec", "attach", "portforward"].contains(&path.subresource.as_str())
}

/// What goes on to somebody else as it comes.
fn streams(path: &ResourcePath) -> bool {
    tunnels(path) || path.subresource == "proxy"
}

/// The body's room stays taken for as long as the share lives.
type WholeBody = (Request, Option<Bytes>, Option<Share>);

/// Reads the body of a write, and shows it; what goes on to a node agent is left to stream. Bodies that wait have a limit together,
/// and so have those of one user.
async fn with_whole_body(bodies: &Shares, user: &UserInfo, target: &Target, request: Request) -> Outcome<WholeBody> {
    match target {
        Target::Resource { verb: Some(verb), path } if !verb.is_read() && !streams(path) => {}
        _ => return Ok((request, None, None)),
    }
    let (parts, body) = request.into_parts();
    let said = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let said = said.or_else(|| body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(MAX_BODY)));
    let kib = said.unwrap_or(MAX_BODY).min(MAX_BODY).div_ceil(1_024);
    let room = bodies.take(&user.username, kib).map_err(|full| no_room(full, bodies, user))?;
    let late = |_| Box::new(Status::timeout("the request body did not arrive in time", 0));
    let body = timeout(BODY_WITHIN, read(body)).await.map_err(late)??;
    Ok((Request::from_parts(parts, full(body.clone())), Some(body), Some(room)))
}

fn no_room(full: Full, bodies: &Shares, user: &UserInfo) -> Status {
    let mut status = Status::too_many_requests(1);
    status.message = match full {
        Full::Everything => {
            format!("bodies of writes take all {} MiB that this server has for them", bodies.size() >> 10)
        }
        Full::Share => {
            format!(
                "bodies of writes of {:?} take all {} MiB that one user may have",
                user.username,
                bodies.each() >> 10
            )
        }
    };
    status
}

async fn authorise(
    core: &Core,
    user: &UserInfo,
    target: &Target,
    what: &Attributes<'_>,
    audit: Option<&Record>,
    upgrades: bool,
) -> Outcome<()> {
    decided(core, user, what, audit).await?;
    // A WebSocket begins as a read, but what goes through it is no read: as Kubernetes since 1.35. An agent runs commands that way.
    let reaches_agent = |path: &ResourcePath| upgrades && path.resource == "nodes" && path.subresource == "proxy";
    match target {
        Target::Resource { path, .. } if tunnels(path) || reaches_agent(path) => {
            decided(core, user, &Attributes { verb: "create", ..*what }, audit).await
        }
        _ => Ok(()),
    }
}

/// Refuses what is not allowed.
pub async fn allowed(core: &Core, user: &UserInfo, what: &Attributes<'_>) -> Outcome<()> {
    decided(core, user, what, None).await
}

/// As [`allowed`], and the audit log is told why.
async fn decided(core: &Core, user: &UserInfo, what: &Attributes<'_>, audit: Option<&Record>) -> Outcome<()> {
    let decision = core.authorize(user, what).await;
    if let Some(record) = audit {
        let (word, reason) = match &decision {
            Decision::Allow(grant) => ("allow", grant.to_string()),
            Decision::Deny(why) => ("forbid", why.clone()),
        };
        record.annotate("authorization.k8s.io/decision", word);
        record.annotate("authorization.k8s.io/reason", reason);
    }
    match decision {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(why) => Err(forbidden(user, what, &why).into()),
    }
}

/// As Kubernetes: the one name that a list or watch selects counts as the request's name.
pub fn attributes<'a>(verb: &'a str, path: &'a ResourcePath, selector: &'a FieldSelector) -> Attributes<'a> {
    let selected = selector.required("metadata.name").filter(|_| ["list", "watch"].contains(&verb));
    // A namespace itself is in itself: a role in it may allow to read it.
    let itself = path.group.is_empty() && path.resource == "namespaces";
    Attributes {
        verb,
        group: &path.group,
        version: &path.version,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: if itself { &path.name } else { &path.namespace },
        name: selected.filter(|_| path.name.is_empty()).unwrap_or(&path.name),
        path: None,
        node_selector: selector.required("spec.nodeName"),
    }
}

/// As [`failure`], for a client that reads nothing but protobuf.
fn failure_in(encoding: Encoding, status: &Status) -> Response {
    let response = failure(status);
    if encoding != Encoding::Protobuf {
        return response;
    }
    let (parts, _) = response.into_parts();
    let value = serde_json::to_value(status).unwrap_or_default();
    let Ok(ty) = message_type(&value) else { return failure(status) };
    let mut encoded = respond(parts.status, PROTOBUF, protobuf::encode(&value, ty));
    if let Some(after) = parts.headers.get(header::RETRY_AFTER) {
        encoded.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    encoded
}

/// A failed request as its client sees it.
pub fn failure(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(message = %status.message, "a request failed inside");
    }
    let body = serde_json::to_vec(status).unwrap_or_default();
    let mut response = respond(code, JSON, body);
    if status.retry_after_s() > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(status.retry_after_s()));
    }
    response
}

/// Adds the `Warning` headers, each text once.
pub fn with_warnings(mut response: Response, mut warnings: Vec<String>) -> Response {
    let mut seen = Vec::new();
    warnings.retain(|text| {
        let new = !seen.contains(text);
        seen.push(text.clone());
        new
    });
    for text in warnings.into_iter().take(100) {
        let quoted: String = text
            .chars()
            .filter(|c| !c.is_control())
            .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::stream;

    fn target(method: &Method, uri: &str) -> (Target, Query) {
        let uri: http::Uri = uri.parse().unwrap();
        let query = Query::parse(uri.query());
        (Target::parse(method, uri.path(), &query), query)
    }

    #[test]
    fn only_streams_may_last() {
        let check = |method: Method, uri: &str, expect: bool| {
            let (target, query) = target(&method, uri);
            assert_eq!(long_running(&target, &query), expect, "{method} {uri}");
        };
        check(Method::GET, "/api/v1/pods?watch=1", true);
        check(Method::GET, "/api/v1/pods", false);
        check(Method::POST, "/api/v1/namespaces/a/pods/b/exec?command=x", true);
        check(Method::GET, "/api/v1/namespaces/a/pods/b/portforward", true);
        check(Method::GET, "/api/v1/namespaces/a/pods/b/log?follow=true", true);
        check(Method::GET, "/api/v1/namespaces/a/pods/b/log", false);
        check(Method::PUT, "/api/v1/namespaces/a/services/b/proxy/c", true);
        check(Method::OPTIONS, "/api/v1/nodes/a/proxy", true);
        check(Method::GET, "/metrics", false);
    }

    #[tokio::test]
    async fn bodies_that_wait_have_room_for_so_many_and_each_user_has_a_share() {
        let (room, jane, joe) = (Shares::new(5, 4), UserInfo::new("jane", &[]), UserInfo::new("joe", &[]));
        let sent = |length: usize| {
            let mut request = Request::new(full(vec![b' '; length]));
            request.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            request
        };
        let (write, _) = target(&Method::POST, "/api/v1/namespaces/a/configmaps");
        let one = with_whole_body(&room, &jane, &write, sent(3 << 10)).await.ok().unwrap();
        let refused = async |user| {
            let status = with_whole_body(&room, user, &write, sent(3 << 10)).await.err().unwrap();
            format!("{} {}", status.code(), status.message)
        };
        let share = "429 bodies of writes of \"jane\" take all 0 MiB that one user may have";
        assert_eq!(refused(&jane).await, share);
        assert_eq!(refused(&joe).await, "429 bodies of writes take all 0 MiB that this server has for them");
        assert!(with_whole_body(&room, &joe, &write, sent(2 << 10)).await.is_ok());
        drop(one);
        assert!(with_whole_body(&room, &jane, &write, sent(3 << 10)).await.is_ok());
    }

    #[test]
    fn methods_that_nobody_knows_are_one() {
        assert_eq!((known_method(&Method::GET), known_method(&"X-1".parse().unwrap())), ("GET", "other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up() {
        let request = || Request::new(stream(futures::stream::pending()));
        let (write, _) = target(&Method::POST, "/api/v1/namespaces/a/configmaps");
        let (room, jane) = (Shares::new(MAX_BODY >> 10, MAX_BODY >> 10), UserInfo::new("jane", &[]));
        assert_eq!(with_whole_body(&room, &jane, &write, request()).await.err().unwrap().code(), 504);
        let (exec, _) = target(&Method::POST, "/api/v1/namespaces/a/pods/b/exec");
        assert!(with_whole_body(&room, &jane, &exec, request()).await.is_ok(), "it is not read here");
    }
}
