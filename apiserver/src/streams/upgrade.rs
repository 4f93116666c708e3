//! What a client wants to speak through an upgraded connection, by its headers. Pure; decides what is spoken, and how a refusal reads.

use super::channels::{self, PROTOCOLS, Protocol};
use crate::http::Outcome;
use gantry_apimachinery::status::{Reason, Status};
use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

pub const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const SPDY: &str = "SPDY/3.1";
const TUNNEL_PREFIX: &str = "SPDY/3.1+";
/// A token may come as an offer of a subprotocol, where a browser sets no headers.
pub const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";
/// The versions of the streams of exec and attach, the best first.
pub const COMMAND_VERSIONS: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
pub const FORWARD_VERSIONS: [&str; 1] = ["portforward.k8s.io"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// SPDY, and the versions of the streams inside that both sides know.
    Spdy(Vec<&'static str>),
    /// SPDY inside the binary messages of a WebSocket.
    Tunnel { key: String, versions: Vec<&'static str> },
    /// Channels in the messages of a WebSocket.
    Channels { key: String, protocol: Protocol },
    /// Ports in the channels of a WebSocket, which the node agent speaks itself.
    Passed,
}

/// All values of a header that is a list.
fn list(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).map(str::trim);
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Whether the client asks for another protocol on its connection.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let asks = list(headers, CONNECTION).iter().any(|option| option.eq_ignore_ascii_case("upgrade"));
    asks && headers.contains_key(UPGRADE)
}

/// Reads a request for `exec`, `attach` or `portforward`.
pub fn wanted(subresource: &str, headers: &HeaderMap) -> Outcome<Wanted> {
    if !is_upgrade(headers) {
        return Err(Status::bad_request("Upgrade request required").into());
    }
    let forwards = subresource == "portforward";
    let spoken: &[&'static str] = if forwards { &FORWARD_VERSIONS } else { &COMMAND_VERSIONS };
    let upgrades = list(headers, UPGRADE);
    if upgrades.iter().any(|upgrade| upgrade.eq_ignore_ascii_case(SPDY)) {
        return spdy(headers, spoken);
    }
    if !upgrades.iter().any(|upgrade| upgrade.eq_ignore_ascii_case("websocket")) {
        let text = format!("cannot upgrade to {}: {SPDY} and websocket are spoken here", upgrades.join(", "));
        return Err(Status::bad_request(text).into());
    }
    websocket(headers, forwards)
}

fn spdy(headers: &HeaderMap, spoken: &[&'static str]) -> Outcome<Wanted> {
    let offers = list(headers, STREAM_PROTOCOL);
    if offers.is_empty() {
        let text = "unable to upgrade: the header X-Stream-Protocol-Version is required";
        return Err(Status::bad_request(text).into());
    }
    let both = known(offers.iter().map(String::as_str), spoken);
    if both.is_empty() {
        let offers = offers.join(" ");
        let text = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{offers}], server accepts [{}]",
            spoken.join(" ")
        );
        return Err(forbidden(text).into());
    }
    Ok(Wanted::Spdy(both))
}

/// Those of the client's offers that are spoken, in its order.
fn known<'a>(offers: impl Iterator<Item = &'a str>, spoken: &[&'static str]) -> Vec<&'static str> {
    offers.filter_map(|offer| spoken.iter().copied().find(|known| *known == offer)).collect()
}

fn websocket(headers: &HeaderMap, forwards: bool) -> Outcome<Wanted> {
    let bad = |text: &str| Status::bad_request(format!("unable to upgrade: websocket: {text}"));
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(bad("the header Sec-WebSocket-Version must be 13").into());
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| bad("the header Sec-WebSocket-Key is required"))?.to_owned();
    let offers = list(headers, SEC_WEBSOCKET_PROTOCOL);
    let offers: Vec<&str> = offers.iter().map(String::as_str).filter(|one| !one.starts_with(BEARER_PREFIX)).collect();
    if forwards {
        let tunnelled = offers.iter().filter_map(|offer| offer.strip_prefix(TUNNEL_PREFIX));
        let versions = known(tunnelled, &FORWARD_VERSIONS);
        let tunnels = offers.iter().any(|offer| offer.starts_with(TUNNEL_PREFIX));
        return match (tunnels, versions.is_empty()) {
            (true, false) => Ok(Wanted::Tunnel { key, versions }),
            (false, _) => Ok(Wanted::Passed),
            (true, true) => Err(unknown(&offers, &["SPDY/3.1+portforward.k8s.io"]).into()),
        };
    }
    match channels::negotiate(&offers) {
        Some(protocol) => Ok(Wanted::Channels { key, protocol }),
        None => Err(unknown(&offers, &PROTOCOLS.map(|protocol| protocol.name)).into()),
    }
}

fn unknown(offers: &[&str], spoken: &[&str]) -> Status {
    forbidden(format!(
        "unable to upgrade: requested protocol(s) are not supported: [{}]; supports [{}]",
        offers.join(" "),
        spoken.join(" ")
    ))
}

fn forbidden(text: String) -> Status {
    Status::failure(Reason::Forbidden, text, None)
}

/// The headers that switch to a WebSocket.
pub fn switch_to_websocket(key: &str, protocol: &str) -> HeaderMap {
    let mut headers = switch_to("websocket");
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Ok(protocol) = HeaderValue::from_str(protocol)
        && !protocol.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    headers
}

/// The headers that switch to a WebSocket with SPDY inside.
pub fn switch_to_tunnel(key: &str, version: &str) -> HeaderMap {
    switch_to_websocket(key, &format!("{TUNNEL_PREFIX}{version}"))
}

/// The headers that switch to SPDY with streams of this version.
pub fn switch_to_spdy(version: &'static str) -> HeaderMap {
    let mut headers = switch_to(SPDY);
    headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(version));
    headers
}

/// The headers that ask a node agent for SPDY.
pub fn ask_for_spdy(versions: &[&'static str]) -> HeaderMap {
    let mut headers = switch_to(SPDY);
    for version in versions {
        headers.append(STREAM_PROTOCOL, HeaderValue::from_static(version));
    }
    headers
}

/// What the node agent chose of it. An agent that says nothing took the first.
pub fn chosen(headers: &HeaderMap, offered: &[&'static str]) -> Option<&'static str> {
    let named = list(headers, STREAM_PROTOCOL);
    match named.first() {
        None => offered.first().copied(),
        Some(named) => offered.iter().copied().find(|version| version == named),
    }
}

/// Headers that ask for, or switch to, another protocol.
pub fn switch_to(protocol: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static(protocol)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        let mut all = HeaderMap::new();
        all.extend(pairs.iter().map(pair));
        all
    }

    fn brief(outcome: Outcome<Wanted>) -> String {
        match outcome {
            Ok(Wanted::Channels { protocol, .. }) => format!("channels {:?}", protocol.name),
            Ok(Wanted::Tunnel { versions, .. }) => format!("tunnel {versions:?}"),
            Ok(other) => format!("{other:?}"),
            Err(status) => format!("{} {}", status.code(), status.message),
        }
    }

    #[test]
    fn spdy_needs_a_version_that_both_know() {
        let check = |subresource: &str, versions: &[&str], expect: &str| {
            let mut all = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
            for version in versions {
                all.append(STREAM_PROTOCOL, HeaderValue::from_str(version).unwrap());
            }
            assert_eq!(brief(wanted(subresource, &all)), expect);
        };
        let spdy = |versions: &[&'static str]| format!("{:?}", Wanted::Spdy(versions.to_vec()));
        check(
            "exec",
            &["v4.channel.k8s.io", "v9.channel.k8s.io,channel.k8s.io"],
            &spdy(&["v4.channel.k8s.io", "channel.k8s.io"]),
        );
        check("portforward", &["portforward.k8s.io"], &spdy(&["portforward.k8s.io"]));
        check("exec", &[], "400 unable to upgrade: the header X-Stream-Protocol-Version is required");
        check(
            "portforward",
            &["v4.channel.k8s.io"],
            "403 unable to upgrade: unable to negotiate protocol: client supports [v4.channel.k8s.io], server accepts [portforward.k8s.io]",
        );
    }

    #[test]
    fn websockets_need_a_subprotocol_that_is_spoken() {
        let check = |subresource: &str, offer: &str, expect: &str| {
            let mut all = headers(&[
                ("connection", "keep-alive, upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "x"),
            ]);
            if !offer.is_empty() {
                all.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(offer).unwrap());
            }
            assert_eq!(brief(wanted(subresource, &all)), expect, "{subresource} {offer}");
        };
        check("exec", "v5.channel.k8s.io, v4.channel.k8s.io", "channels \"v5.channel.k8s.io\"");
        check("attach", "", "channels \"\"");
        check(
            "exec",
            "base64url.bearer.authorization.k8s.io.abc, v4.base64.channel.k8s.io",
            "channels \"v4.base64.channel.k8s.io\"",
        );
        check(
            "exec",
            "chat",
            "403 unable to upgrade: requested protocol(s) are not supported: [chat]; supports [v5.channel.k8s.io \
             v4.channel.k8s.io v4.base64.channel.k8s.io channel.k8s.io base64.channel.k8s.io]",
        );
        check("portforward", "SPDY/3.1+portforward.k8s.io", "tunnel [\"portforward.k8s.io\"]");
        check("portforward", "v4.channel.k8s.io", "Passed");
        check(
            "portforward",
            "SPDY/3.1+chat.k8s.io",
            "403 unable to upgrade: requested protocol(s) are not supported: [SPDY/3.1+chat.k8s.io]; supports [SPDY/3.1+portforward.k8s.io]",
        );
    }

    #[test]
    fn what_is_no_upgrade_is_refused() {
        let check = |pairs: &[(&'static str, &str)], expect: &str| {
            assert_eq!(brief(wanted("exec", &headers(pairs))), expect);
        };
        check(&[], "400 Upgrade request required");
        check(&[("upgrade", "SPDY/3.1")], "400 Upgrade request required");
        check(
            &[("connection", "Upgrade"), ("upgrade", "h2c")],
            "400 cannot upgrade to h2c: SPDY/3.1 and websocket are spoken here",
        );
        let half = [("connection", "Upgrade"), ("upgrade", "websocket")];
        check(&half, "400 unable to upgrade: websocket: the header Sec-WebSocket-Version must be 13");
        check(
            &[half[0], half[1], ("sec-websocket-version", "13")],
            "400 unable to upgrade: websocket: the header Sec-WebSocket-Key is required",
        );
    }
}
