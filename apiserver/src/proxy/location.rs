//! Where a proxied path leads, and how the addresses in its answers read from outside. Pure.
//!
//! A backend knows nothing of the path that it is served under: an address of its own that begins at its root gets that path in
//! front. Addresses elsewhere, and those that begin where the client is, stay.

use http::Uri;

/// `[SCHEME:]NAME[:PORT]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub https: bool,
    pub name: String,
    /// A number or a port's name, as the client wrote it; empty when it named none.
    pub port: String,
}

impl Named {
    /// `None` for what is none.
    pub fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        if name.is_empty() || !["", "http", "https"].contains(&scheme) {
            return None;
        }
        Some(Self { https: scheme == "https", name: name.to_owned(), port: port.to_owned() })
    }
}

/// A proxied request's path, split where the backend's begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Up to and with `/proxy`.
    pub prefix: String,
    /// What is the backend's; empty when not even a slash was given.
    pub rest: String,
}

impl Paths {
    /// Splits behind the subresource `proxy`, which stands behind so many parts.
    pub fn split(path: &str, parts: usize) -> Self {
        let mut at = 0;
        let mut prefix = String::new();
        for _ in 0..parts {
            at += path[at..].len() - path[at..].trim_start_matches('/').len();
            let end = at + path[at..].find('/').unwrap_or(path[at..].len());
            // Slashes that stand for nothing are no part of what is put before every address of a page.
            if at < end {
                prefix.push('/');
                prefix.push_str(&path[at..end]);
            }
            at = end;
        }
        Self { prefix, rest: clean(&path[at..]) }
    }
}

/// A path without empty and dotted parts; a slash at its end stays.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    let mut text: String = kept.iter().flat_map(|part| ["/", part]).collect();
    if path.ends_with('/') || (text.is_empty() && !path.is_empty()) {
        text.push('/');
    }
    text
}

/// What makes an address the backend's own.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub prefix: String,
    /// As the backend is dialed, and as the client called this server.
    pub hosts: [String; 2],
}

impl Rewrite {
    /// An address as the client has to ask for it.
    pub fn address(&self, address: &str) -> String {
        let own = match address.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => self.own(rest),
            _ => match address.strip_prefix("//") {
                Some(rest) => self.own(rest),
                None => address.starts_with('/').then(|| address.to_owned()),
            },
        };
        let Some(own) = own else { return address.to_owned() };
        let path = own.split(['?', '#']).next().unwrap_or_default();
        let inside =
            path.strip_prefix(self.prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if inside { own } else { format!("{}{own}", self.prefix) }
    }

    /// The part behind the host, when the host is the backend.
    fn own(&self, rest: &str) -> Option<String> {
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(at);
        // An address that names the host alone has no path that could be rooted.
        (self.hosts.iter().any(|own| own == host) && rest.starts_with('/')).then(|| rest.to_owned())
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char))
}

/// A path and query as the first line of a request takes them.
pub fn target(path: &str, query: Option<&str>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

/// How the client called this server.
pub fn called(uri: &Uri, host: Option<&str>) -> String {
    host.or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_names_and_ports() {
        let check = |text: &str, expect: Option<(bool, &str, &str)>| {
            let named = Named::read(text);
            let brief = named.as_ref().map(|n| (n.https, n.name.as_str(), n.port.as_str()));
            assert_eq!(brief, expect, "{text}");
        };
        check("web", Some((false, "web", "")));
        check("web:80", Some((false, "web", "80")));
        check("https:web:metrics", Some((true, "web", "metrics")));
        check("http:web:", Some((false, "web", "")));
        check(":web:80", Some((false, "web", "80")));
        check("ftp:web:80", None);
        check("https:web:80:90", None);
        check(":80", None);
        check("", None);
    }

    #[test]
    fn paths_are_split_and_cleaned() {
        let check = |path: &str, rest: &str| {
            let paths = Paths::split(path, 7);
            assert_eq!(
                (paths.prefix.as_str(), paths.rest.as_str()),
                ("/api/v1/namespaces/x/pods/p/proxy", rest),
                "{path}"
            );
        };
        check("/api/v1/namespaces/x/pods/p/proxy", "");
        check("/api/v1/namespaces/x/pods/p/proxy/", "/");
        check("/api/v1/namespaces/x/pods/p/proxy/a/b", "/a/b");
        check("/api/v1/namespaces/x/pods/p/proxy/a%2Fb/", "/a%2Fb/");
        check("/api/v1/namespaces/x/pods/p/proxy//a/./b/..", "/a");
        check("/api/v1/namespaces/x/pods/p/proxy/../../../q/", "/q/");
        check("/api/v1/namespaces/x/pods/p/proxy/..", "/");
        check("/api/v1/namespaces/x/pods/p/proxy/proxy/proxy", "/proxy/proxy");
        assert_eq!(Paths::split("/api/v1/nodes/n/proxy/a", 5).rest, "/a");
        assert_eq!(Paths::split("/a", 5), Paths { prefix: "/a".into(), rest: String::new() });
        let long = format!("{}api/v1//nodes/n/proxy//a", "/".repeat(1_000));
        assert_eq!(Paths::split(&long, 5), Paths { prefix: "/api/v1/nodes/n/proxy".into(), rest: "/a".into() });
    }

    #[test]
    fn addresses_of_the_backend_get_its_path_in_front() {
        let rewrite = Rewrite { prefix: "/p/proxy".into(), hosts: ["10.0.0.1:80".into(), "kube:6443".into()] };
        let check = |address: &str, expect: &str| assert_eq!(rewrite.address(address), expect, "{address}");
        check("/", "/p/proxy/");
        check("/a/b?c=/d#e", "/p/proxy/a/b?c=/d#e");
        check("a/b", "a/b");
        check("?q", "?q");
        check("#f", "#f");
        check("", "");
        check("http://10.0.0.1:80/a", "/p/proxy/a");
        check("https://kube:6443/a", "/p/proxy/a");
        check("//10.0.0.1:80/a", "/p/proxy/a");
        check("http://10.0.0.1/a", "http://10.0.0.1/a");
        check("https://example.org/a", "https://example.org/a");
        check("//example.org/a", "//example.org/a");
        check("http://kube:6443", "http://kube:6443");
        check("/p/proxy/a", "/p/proxy/a");
        check("/p/proxy", "/p/proxy");
        check("/p/proxy2", "/p/proxy/p/proxy2");
        check("mailto:a@b", "mailto:a@b");
        check("javascript://%0aalert(1)", "javascript://%0aalert(1)");
    }
}
