//! Who is at the other end of a connection: a client by its certificate, or a proxy that says in headers whom it speaks for. Decides
//! which certificates make a proxy, and what its headers say; TLS has checked that the certificate is of one of our authorities.

use super::UserInfo;
use super::authn::from_certificate;
use crate::config::{Config, RequestHeaderConfig};
use crate::core::StartError;
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::net::IpAddr;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Whom its certificate, or the process itself, names.
    pub user: Option<UserInfo>,
    /// It may speak for others.
    pub is_proxy: bool,
    /// Its certificate counts until then, and not after; seconds of the clock that a request is judged by.
    pub until_s: Option<i64>,
    pub address: Option<IpAddr>,
}

impl Peer {
    pub fn user(user: UserInfo) -> Self {
        Self { user: Some(user), ..Self::default() }
    }

    /// A connection may outlive the certificate that opened it.
    pub fn has_expired(&self, now_s: i64) -> bool {
        self.until_s.is_some_and(|until| until < now_s)
    }
}

/// Tells clients from proxies.
pub struct Peers {
    proxies: Option<Proxies>,
}

struct Proxies {
    clients: Arc<dyn ClientCertVerifier>,
    proxies: Arc<dyn ClientCertVerifier>,
    config: RequestHeaderConfig,
}

impl Peers {
    pub fn new(config: &Config) -> Result<Self, StartError> {
        let Some(header) = &config.request_header else { return Ok(Self { proxies: None }) };
        let proxies =
            Proxies { clients: verifier(&config.client_ca)?, proxies: verifier(&header.ca)?, config: header.clone() };
        Ok(Self { proxies: Some(proxies) })
    }

    /// `chain`: what the peer showed, its own certificate first.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Peer {
        let Some((leaf, others)) = chain.split_first() else { return Peer::default() };
        let named = || from_certificate(leaf);
        let until_s = counts_until(leaf, others, now);
        let Some(known) = &self.proxies else { return Peer { user: named(), until_s, ..Peer::default() } };
        let of = |verifier: &Arc<dyn ClientCertVerifier>| verifier.verify_client_cert(leaf, others, now).is_ok();
        let allowed = &known.config.allowed_names;
        let is_proxy =
            of(&known.proxies) && (allowed.is_empty() || named().is_some_and(|user| allowed.contains(&user.username)));
        // An authority of proxies names no clients.
        Peer { user: if of(&known.clients) { named() } else { None }, is_proxy, until_s, address: None }
    }

    /// Whom a proxy speaks for, if it says so.
    pub fn spoken_for(&self, headers: &HeaderMap) -> Option<UserInfo> {
        read(headers, &self.proxies.as_ref()?.config)
    }
}

/// Until when all of a chain counts that was verified `now`. Another certificate than its own that had ended by then vouched for nothing.
fn counts_until(leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>], now: UnixTime) -> Option<i64> {
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let end = |der: &CertificateDer<'_>| {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    others.iter().filter_map(end).filter(|end| *end >= now_s).chain(end(leaf)).min()
}

fn verifier(ca: &str) -> Result<Arc<dyn ClientCertVerifier>, StartError> {
    let bad = |why: String| StartError::RequestHeader(why);
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|error| bad(error.to_string()))
}

fn read(headers: &HeaderMap, config: &RequestHeaderConfig) -> Option<UserInfo> {
    let values = |name: &String| {
        headers.get_all(name.as_str()).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok())
    };
    let first = |names: &[String]| -> Option<String> {
        names.iter().flat_map(values).find(|value| !value.is_empty()).map(str::to_owned)
    };
    let username = first(&config.username_headers)?;
    let groups: Vec<&str> = config.group_headers.iter().flat_map(values).collect();
    let mut user = UserInfo::new(username, &groups);
    if groups.contains(&"system:authenticated") || groups.contains(&"system:unauthenticated") {
        user.groups.pop();
    }
    user.uid = first(&config.uid_headers).unwrap_or_default();
    for name in headers.keys() {
        let prefixes = config.extra_prefixes.iter().map(|prefix| prefix.to_lowercase());
        for key in prefixes.filter_map(|prefix| name.as_str().strip_prefix(prefix.as_str()).map(str::to_owned)) {
            let key = percent_decode_str(&key).decode_utf8_lossy().into_owned();
            user.extra.entry(key).or_default().extend(values(&name.to_string()).map(str::to_owned));
        }
    }
    Some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn headers_say_whom_a_proxy_speaks_for() {
        let config = RequestHeaderConfig {
            username_headers: vec!["X-Remote-User".into(), "X-Other-User".into()],
            uid_headers: vec!["X-Remote-Uid".into()],
            group_headers: vec!["X-Remote-Group".into()],
            extra_prefixes: vec!["X-Remote-Extra-".into()],
            ..RequestHeaderConfig::default()
        };
        let check = |pairs: &[(&'static str, &'static str)], expect: Option<UserInfo>| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(read(&headers, &config), expect);
        };
        check(&[("x-remote-group", "a")], None);
        check(&[("x-remote-user", "")], None);
        check(&[("x-other-user", "bob")], Some(UserInfo::new("bob", &[])));
        let mut jane = UserInfo::new("jane", &["a", "b"]);
        jane.uid = "7".into();
        jane.extra.insert("e/k".into(), vec!["v".into(), "w".into()]);
        let pairs = [
            ("x-remote-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-e%2fk", "v"),
            ("x-remote-extra-e%2fk", "w"),
        ];
        check(&pairs, Some(jane));
        let nobody = [("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")];
        check(&nobody, Some(UserInfo::anonymous()));
    }
}
