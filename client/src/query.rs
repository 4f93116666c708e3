//! Builds the query part of a request path. Never decides which parameters a request needs.

use std::fmt::Write as _;

/// `?key=value&…`, percent-encoded; empty until the first parameter.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    pub fn push(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        encode_into(&mut self.0, value);
        self
    }

    pub fn push_some(&mut self, key: &str, value: &str) -> &mut Self {
        if value.is_empty() { self } else { self.push(key, value) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// RFC 3986: everything but the unreserved characters is escaped.
fn encode_into(out: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_selectors() {
        let check = |pairs: &[(&str, &str)], expect: &str| {
            let mut query = Query::default();
            for (key, value) in pairs {
                query.push_some(key, value);
            }
            assert_eq!(query.as_str(), expect);
        };
        check(&[], "");
        check(&[("labelSelector", "")], "");
        check(&[("labelSelector", "a in (b,c),d!=é")], "?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3D%C3%A9");
        check(
            &[("watch", "true"), ("fieldSelector", "spec.nodeName=n-1")],
            "?watch=true&fieldSelector=spec.nodeName%3Dn-1",
        );
    }
}
