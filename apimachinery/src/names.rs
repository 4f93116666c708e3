//! What names, labels and keys may look like, in Kubernetes' words, and how names are generated.
//!
//! It decides by syntax alone; randomness is an argument, and uniqueness is for the store to decide.

use sha2::{Digest, Sha256};

const ALPHANUMS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Kubernetes' longest generated name: a DNS label.
const MAX_GENERATED: usize = 63;
const SUFFIX_LEN: usize = 5;

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MSG: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035_MSG: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_MSG: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_MSG: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn regex_error(msg: &str, fmt: &str, examples: &[&str]) -> String {
    let examples = examples.iter().map(|e| format!("'{e}'")).collect::<Vec<_>>().join(",  or ");
    format!("{msg} (e.g. {examples}, regex used for validation is '{fmt}')")
}

fn max_len(s: &str, max: usize) -> Result<(), String> {
    if s.len() > max { Err(format!("must be no more than {max} bytes")) } else { Ok(()) }
}

fn lower_alnum(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_label(s: &str) -> bool {
    let b = s.as_bytes();
    !b.is_empty() && b.iter().all(|b| lower_alnum(*b) || *b == b'-') && lower_alnum(b[0]) && lower_alnum(b[b.len() - 1])
}

fn is_qualified(s: &str) -> bool {
    let b = s.as_bytes();
    !b.is_empty()
        && b.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && b[0].is_ascii_alphanumeric()
        && b[b.len() - 1].is_ascii_alphanumeric()
}

/// An IP address, spelt as everybody spells it, so that each has one name.
pub fn canonical_ip(s: &str) -> Result<(), String> {
    match s.parse::<std::net::IpAddr>() {
        Ok(ip) if ip.to_string() == s => Ok(()),
        Ok(ip) => Err(format!("must be in canonical form ({:?})", ip.to_string())),
        Err(_) => Err("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()),
    }
}

/// A DNS label (RFC 1123): most names inside an object, and namespaces.
pub fn dns1123_label(s: &str) -> Result<(), String> {
    max_len(s, 63)?;
    if is_label(s) { Ok(()) } else { Err(regex_error(LABEL_MSG, LABEL_FMT, &["my-name", "123-abc"])) }
}

/// A DNS subdomain (RFC 1123): most object names.
pub fn dns1123_subdomain(s: &str) -> Result<(), String> {
    max_len(s, 253)?;
    if !s.is_empty() && s.split('.').all(is_label) {
        return Ok(());
    }
    Err(regex_error(SUBDOMAIN_MSG, &format!("{LABEL_FMT}(\\.{LABEL_FMT})*"), &["example.com"]))
}

/// A DNS label that starts with a letter (RFC 1035): Services.
pub fn dns1035_label(s: &str) -> Result<(), String> {
    max_len(s, 63)?;
    if is_label(s) && s.as_bytes()[0].is_ascii_lowercase() {
        return Ok(());
    }
    Err(regex_error(LABEL_1035_MSG, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]))
}

/// `[prefix/]name`: label keys, annotation keys, resource names.
pub fn qualified_name(s: &str) -> Result<(), String> {
    let name = match s.split_once('/') {
        None => s,
        Some((_, rest)) if rest.contains('/') => {
            let msg = regex_error(QUALIFIED_MSG, QUALIFIED_FMT, &["MyName", "my.name", "123-abc"]);
            return Err(format!(
                "a qualified name {msg} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
        Some(("", _)) => return Err("prefix part must be non-empty".to_owned()),
        Some((prefix, name)) => {
            dns1123_subdomain(prefix).map_err(|e| format!("prefix part {e}"))?;
            name
        }
    };
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    max_len(name, 63).map_err(|e| format!("name part {e}"))?;
    if is_qualified(name) {
        return Ok(());
    }
    Err(format!("name part {}", regex_error(QUALIFIED_MSG, QUALIFIED_FMT, &["MyName", "my.name", "123-abc"])))
}

/// A label's value: empty, or as a qualified name's last part.
pub fn label_value(s: &str) -> Result<(), String> {
    max_len(s, 63)?;
    if s.is_empty() || is_qualified(s) {
        return Ok(());
    }
    let fmt = format!("({QUALIFIED_FMT})?");
    Err(regex_error(LABEL_VALUE_MSG, &fmt, &["MyValue", "my_value", "12345"]))
}

/// An environment variable's name: printable ASCII except `=`, as Kubernetes allows since 1.32.
pub fn env_var_name(s: &str) -> Result<(), String> {
    if s.is_empty() {
        return Err("environment variable name must be non-empty".to_owned());
    }
    if s.bytes().all(|b| (0x20..=0x7e).contains(&b) && b != b'=') {
        return Ok(());
    }
    Err("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned())
}

/// A key of a ConfigMap's or Secret's data: also a file name when mounted.
pub fn config_key(s: &str) -> Result<(), String> {
    max_len(s, 253)?;
    if s.is_empty() || !s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        let msg = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        return Err(regex_error(msg, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match s {
        "." => Err("must not be '.'".to_owned()),
        ".." => Err("must not be '..'".to_owned()),
        _ if s.starts_with("..") => Err("must not start with '..'".to_owned()),
        _ => Ok(()),
    }
}

/// A name that only has to be safe as one path segment.
pub fn path_segment(s: &str) -> Result<(), String> {
    match s {
        "" => Err("must be non-empty".to_owned()),
        "." => Err("may not be '.'".to_owned()),
        ".." => Err("may not be '..'".to_owned()),
        _ if s.contains('/') => Err("may not contain '/'".to_owned()),
        _ if s.contains('%') => Err("may not contain '%'".to_owned()),
        _ => Ok(()),
    }
}

/// The IANA_SVC_NAME syntax of port names: at most 15 of `[a-z0-9-]`, a letter, no doubled or outer hyphen.
pub fn port_name(s: &str) -> Result<(), String> {
    if s.len() > 15 {
        return Err("must be no more than 15 bytes".to_owned());
    }
    if s.is_empty() || !s.bytes().all(|b| lower_alnum(b) || b == b'-') {
        return Err("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !s.bytes().any(|b| b.is_ascii_lowercase()) {
        return Err("must contain at least one letter (a-z)".to_owned());
    }
    if s.contains("--") {
        return Err("must not contain consecutive hyphens".to_owned());
    }
    if s.starts_with('-') || s.ends_with('-') {
        return Err("must not begin or end with a hyphen".to_owned());
    }
    Ok(())
}

/// `len` characters without vowels or look-alikes, from these bits. 64 bits carry 13 characters.
pub fn rand_suffix(entropy: u64, len: usize) -> String {
    let base = ALPHANUMS.len() as u64;
    (0..len)
        .scan(entropy, |bits, _| {
            let c = ALPHANUMS[(*bits % base) as usize];
            *bits /= base;
            Some(char::from(c))
        })
        .collect()
}

/// The name for a `generateName` of `base`: cut to fit a DNS label, and five characters from `entropy`.
pub fn generate(base: &str, entropy: u64) -> String {
    let mut end = base.len().min(MAX_GENERATED - SUFFIX_LEN);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &base[..end], rand_suffix(entropy, SUFFIX_LEN))
}

/// A short name-safe hash, as in `pod-template-hash`: equal bytes give equal text, always, on every version.
pub fn safe_hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    rand_suffix(u64::from_le_bytes(head), 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(f: fn(&str) -> Result<(), String>, good: &[&str], bad: &[&str]) {
        for s in good {
            assert_eq!(f(s), Ok(()), "{s}");
        }
        for s in bad {
            assert!(f(s).is_err(), "{s}");
        }
    }

    #[test]
    fn syntax_rules() {
        check(
            canonical_ip,
            &["10.0.0.1", "2001:db8::1"],
            &["10.0.0.01", "2001:DB8::1", "::ffff:10.0.0.300", "host", ""],
        );
        let long = "a".repeat(64);
        check(dns1123_label, &["a", "0-9", &long[1..]], &["", "-a", "a-", "A", "a.b", "a_b", &long]);
        check(dns1123_subdomain, &["a.b", "0"], &["", ".", "a..b", "a.", "A.b", &"a.".repeat(127)]);
        check(dns1035_label, &["a1"], &["1a", "", "a."]);
        check(qualified_name, &["a", "A_b.c", "x.y/Z"], &["", "/a", "x/", "x/y/z", "X/y", "a/-b", &long]);
        check(label_value, &["", "A_b.c-1"], &["-", "a b", "a/b", &long]);
        check(env_var_name, &["A", "a.b-c", "1x y"], &["", "a=b", "é"]);
        check(config_key, &["a", ".x", "A_b.c"], &["", ".", "..", "..a", "a/b", "a b"]);
        check(port_name, &["http", "a-1"], &["", "-a", "a--b", "123", "HTTP", "abcdefghijklmnop"]);
        check(path_segment, &["a:b", "system:x"], &["", ".", "..", "a/b", "a%b"]);
    }

    #[test]
    fn messages_are_kubernetes_own() {
        let expect = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        assert_eq!(dns1123_subdomain("Foo"), Err(expect.to_owned()));
        let expect = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        assert_eq!(dns1123_label("a_b"), Err(expect.to_owned()));
    }

    #[test]
    fn generated_names_fit_a_label() {
        let name = generate(&"x".repeat(100), 7);
        assert_eq!(name.len(), 63);
        assert_eq!(dns1123_label(&name), Ok(()));
        assert_ne!(generate("a-", 1), generate("a-", 2));
        assert_eq!(generate("web-", 0), "web-bbbbb");
    }

    #[test]
    fn the_hash_is_frozen() {
        assert_eq!(safe_hash(b""), safe_hash(b""));
        assert_ne!(safe_hash(b"a"), safe_hash(b"b"));
        assert_eq!(safe_hash(b"gantry").len(), 10);
    }
}
