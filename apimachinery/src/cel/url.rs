//! URLs as Go's `net/url` takes them in a request: absolute, or a path from the root. It decides what their parts are.

use std::collections::BTreeMap;

/// A URL that was read. Its parts are as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    text: String,
    scheme: String,
    /// With the port, without user information.
    host: String,
    path: String,
    query: String,
}

impl Url {
    pub fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // `mailto:ann`: nothing of it is a host or a path.
            return (!scheme.is_empty()).then_some(url);
        }
        let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                url.host = host(&rest[..end])?.to_owned();
                &rest[end..]
            }
            None => rest,
        };
        unescape(path, false)?;
        url.path = path.to_owned();
        Some(url)
    }

    pub fn scheme(&self) -> &str {
        &self.scheme
    }
    pub fn host(&self) -> &str {
        &self.host
    }
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Without port and brackets.
    pub fn hostname(&self) -> &str {
        let name = split_port(&self.host).0;
        name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name)
    }

    pub fn port(&self) -> &str {
        split_port(&self.host).1
    }

    pub fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for c in self.path.chars() {
            if c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@%!'()*[]".contains(c) {
                out.push(c);
            } else {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|b| out.push_str(&format!("%{b:02X}")));
            }
        }
        out
    }

    /// Each key's values in their order; pairs that are not well escaped are left out.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key, true), unescape(value, true)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

/// The scheme, which may be empty, and what follows it.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Some((&text[..at], &text[at + 1..])),
            ':' => return None,
            _ => break,
        }
    }
    text.starts_with('/').then_some(("", text))
}

fn host(authority: &str) -> Option<&str> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = split_port(host);
    let bracketed = name.starts_with('[');
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    let whole = if bracketed { name.ends_with(']') } else { !name.contains(':') && !name.contains(']') };
    (whole && port.bytes().all(|b| b.is_ascii_digit()) && name.chars().all(allowed)).then_some(host)
}

fn split_port(host: &str) -> (&str, &str) {
    let from = host.rfind(']').map_or(0, |at| at + 1);
    match host[from..].rfind(':') {
        Some(at) => (&host[..from + at], &host[from + at + 1..]),
        None => (host, ""),
    }
}

fn unescape(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'%' => {
                let [high, low, after @ ..] = rest else { return None };
                let digit = |b: &u8| char::from(*b).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            b'+' if plus_is_space => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_that_go_finds() {
        let check = |text: &str, scheme: &str, host: &str, hostname: &str, port: &str, path: &str| {
            let url = Url::parse(text).unwrap_or_else(|| panic!("{text}"));
            let found = (url.scheme(), url.host(), url.hostname(), url.port(), url.escaped_path());
            assert_eq!(found, (scheme, host, hostname, port, path.to_owned()), "{text}");
        };
        check("https://example.com:80/a%20b?x=1", "https", "example.com:80", "example.com", "80", "/a%20b");
        check("https://u:p@[::1]:80", "https", "[::1]:80", "::1", "80", "");
        check("https://[::1]/", "https", "[::1]", "::1", "", "/");
        check("/path with space", "", "", "", "", "/path%20with%20space");
        check("mailto:ann", "mailto", "", "", "", "");
        for text in ["", "a/b", "https://a b/", "https://a:x/", "https://::1", "/%zz", ":a", "../x"] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }

    #[test]
    fn queries_keep_every_value() {
        let query = Url::parse("/?a=1&b=x+y&a=%32&c&d;e=1").unwrap().query();
        let expect = [("a", vec!["1", "2"]), ("b", vec!["x y"]), ("c", vec![""])];
        let found: Vec<(&str, Vec<&str>)> =
            query.iter().map(|(k, v)| (k.as_str(), v.iter().map(String::as_str).collect())).collect();
        assert_eq!(found, expect);
    }
}
