//! What a request's method and path address. Decides the verb and the resource path; never whether the resource exists.

use super::Query;
use http::Method;
use percent_encoding::percent_decode_str;

/// The verbs of the API as authorisation and metrics know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// `/api/v1/namespaces/NS/pods/NAME/log` and its relatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// What follows a subresource (`proxy/a/b`).
    pub tail: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Resource {
        verb: Option<Verb>,
        path: ResourcePath,
    },
    /// Discovery, health, metrics and the like: the verb is the method in lower case.
    NonResource {
        path: String,
    },
}

/// Parts of `/api/v1/namespaces/NAME/...` that belong to the namespace itself.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl Target {
    /// `None` for what is no resource, and for a method that means nothing to one.
    pub fn verb(&self) -> Option<Verb> {
        match self {
            Self::Resource { verb, .. } => *verb,
            Self::NonResource { .. } => None,
        }
    }

    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let other = || Self::NonResource { path: path.to_owned() };
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let part = |at: usize| parts.get(at).map(String::as_str);
        let (group, version, rest) = match (part(0), parts.len()) {
            (Some("api"), 3..) => ("", &parts[1], &parts[2..]),
            (Some("apis"), 4..) => (parts[1].as_str(), &parts[2], &parts[3..]),
            _ => return other(),
        };
        let mut found = ResourcePath { group: group.to_owned(), version: version.clone(), ..ResourcePath::default() };
        // The old form of a watch: `/api/v1/watch/namespaces/NS/pods`.
        let (watches, rest) = match rest[0].as_str() {
            "watch" if rest.len() > 1 => (true, &rest[1..]),
            _ => (false, rest),
        };
        let own = |name: &str| NAMESPACE_SUBRESOURCES.contains(&name);
        let rest =
            if rest[0] == "namespaces" && rest.len() > 2 && !(group.is_empty() && rest.len() == 3 && own(&rest[2])) {
                found.namespace = rest[1].clone();
                &rest[2..]
            } else {
                rest
            };
        let mut steps = rest.iter().cloned();
        found.resource = steps.next().unwrap_or_default();
        found.name = steps.next().unwrap_or_default();
        found.subresource = steps.next().unwrap_or_default();
        found.tail = steps.collect::<Vec<_>>().join("/");
        // A proxied query is the backend's.
        let none = Query::default();
        let query = if found.subresource == "proxy" { &none } else { query };
        let verb = match verb(method, !found.name.is_empty(), query) {
            Some(verb) if watches => (verb.is_read() && found.subresource.is_empty()).then_some(Verb::Watch),
            verb => verb,
        };
        Self::Resource { verb, path: found }
    }
}

/// Whether every `%` of a path stands before two hexadecimal digits.
pub fn is_well_escaped(path: &str) -> bool {
    let two = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    path.split('%').skip(1).all(two)
}

fn verb(method: &Method, named: bool, query: &Query) -> Option<Verb> {
    Some(match (method.as_str(), named) {
        ("GET" | "HEAD", true) if !query.flag("watch") => Verb::Get,
        ("GET" | "HEAD", _) if query.flag("watch") => Verb::Watch,
        ("GET" | "HEAD", _) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_is_two_digits() {
        let check = |path: &str, expect: bool| assert_eq!(is_well_escaped(path), expect, "{path}");
        check("/api/v1/pods", true);
        check("/api/%2f%2F/a%20", true);
        check("/api/%zz", false);
        check("/api/%2", false);
        check("/api/%", false);
        check("/api/%%41", false);
    }

    #[test]
    fn paths_and_verbs() {
        let check = |method: Method, uri: &str, expect: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let text = match Target::parse(&method, path, &Query::parse(Some(query))) {
                Target::NonResource { path } => format!("other {path}"),
                Target::Resource { verb, path: p } => format!(
                    "{} {}/{}/{} ns={} name={} sub={} tail={}",
                    verb.map_or("none", Verb::as_str),
                    p.group,
                    p.version,
                    p.resource,
                    p.namespace,
                    p.name,
                    p.subresource,
                    p.tail
                ),
            };
            assert_eq!(text, expect, "{uri}");
        };
        check(Method::GET, "/api/v1", "other /api/v1");
        check(Method::GET, "/apis/apps/v1", "other /apis/apps/v1");
        check(Method::GET, "/api/v1/namespaces", "list /v1/namespaces ns= name= sub= tail=");
        check(Method::GET, "/api/v1/namespaces/x", "get /v1/namespaces ns= name=x sub= tail=");
        check(Method::PUT, "/api/v1/namespaces/x/finalize", "update /v1/namespaces ns= name=x sub=finalize tail=");
        check(Method::POST, "/api/v1/namespaces/x/pods", "create /v1/pods ns=x name= sub= tail=");
        check(Method::GET, "/api/v1/namespaces/x/pods/p/log?follow=1", "get /v1/pods ns=x name=p sub=log tail=");
        check(Method::GET, "/api/v1/pods?watch=true", "watch /v1/pods ns= name= sub= tail=");
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/x/deployments/d/scale",
            "patch apps/v1/deployments ns=x name=d sub=scale tail=",
        );
        check(Method::DELETE, "/api/v1/namespaces/x/pods", "deletecollection /v1/pods ns=x name= sub= tail=");
        check(Method::GET, "/api/v1/nodes/n/proxy/a/b", "get /v1/nodes ns= name=n sub=proxy tail=a/b");
        check(Method::GET, "/api/v1/nodes/n/proxy?watch=1", "get /v1/nodes ns= name=n sub=proxy tail=");
        check(Method::GET, "/api/v1/watch/namespaces/x/pods", "watch /v1/pods ns=x name= sub= tail=");
        check(Method::GET, "/api/v1/watch/nodes/n", "watch /v1/nodes ns= name=n sub= tail=");
        check(Method::POST, "/api/v1/watch/nodes", "none /v1/nodes ns= name= sub= tail=");
        check(Method::TRACE, "/api/v1/nodes/n", "none /v1/nodes ns= name=n sub= tail=");
    }
}
