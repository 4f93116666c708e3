//! Addresses, ports and protocols, which several kinds check alike. Decides what is well formed; never what is reachable.

use super::value::{i64_at, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use std::net::IpAddr;

pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

const WILDCARD_WHY: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
    consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex \
    used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub fn protocol(owner: &Value, path: &str, errors: &mut FieldErrors) {
    match str_at(owner, "protocol") {
        "" => errors.required(format!("{path}.protocol")),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.not_supported(format!("{path}.protocol"), other, PROTOCOLS),
    }
}

/// A port number in `owner[field]`; absent counts as 0.
pub fn port(owner: &Value, field: &str, path: &str, errors: &mut FieldErrors) {
    let number = i64_at(owner, field).unwrap_or(0);
    if !(1..=65535).contains(&number) {
        errors.invalid(format!("{path}.{field}"), number, "must be between 1 and 65535, inclusive");
    }
}

/// A port by number or by name, as `targetPort` is given.
pub fn port_or_name(value: &Value, path: &str, errors: &mut FieldErrors) {
    match value {
        Value::String(name) => {
            if let Err(why) = names::port_name(name) {
                errors.invalid(path, name.as_str(), why);
            }
        }
        other => {
            if !other.as_i64().is_some_and(|n| (1..=65535).contains(&n)) {
                errors.invalid(path, other.clone(), "must be between 1 and 65535, inclusive");
            }
        }
    }
}

/// An IP address in its one canonical spelling.
pub fn ip(text: &str, path: &str, errors: &mut FieldErrors) -> Option<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(ip) => Some(ip),
        Err(_) => {
            errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
            None
        }
    }
}

/// An address that traffic may be sent to: not this machine itself, nobody or everybody.
pub fn endpoint_ip(text: &str, path: &str, errors: &mut FieldErrors) {
    let Some(ip) = ip(text, path, errors) else { return };
    let why = match ip {
        _ if ip.is_unspecified() => format!("may not be unspecified ({ip})"),
        _ if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        IpAddr::V4(v4) if v4.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        IpAddr::V4(v4) if v4.octets()[..3] == [224, 0, 0] => {
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()
        }
        _ => return,
    };
    errors.invalid(path, text, why);
}

/// A range of addresses: its first address and how many leading bits they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

impl Cidr {
    /// `10.9.8.0/24`; the address may be any of the range.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|bits| plain && *bits <= width(address))?;
        Some(Self { address, bits })
    }

    /// The same range, told by its first address.
    pub fn canonical(self) -> Self {
        let keep = |all: u128, width: u8| match width - self.bits {
            128 => 0,
            host => all >> host << host,
        };
        let address = match self.address {
            IpAddr::V4(v4) => IpAddr::V4((keep(u128::from(u32::from(v4)), 32) as u32).into()),
            IpAddr::V6(v6) => IpAddr::V6(keep(v6.into(), 128).into()),
        };
        Self { address, bits: self.bits }
    }

    /// Whether `other` is a part of this range, and not all of it.
    pub fn strictly_holds(self, other: Self) -> bool {
        let same = self.address.is_ipv4() == other.address.is_ipv4();
        let widened = Self { address: other.address, bits: self.bits };
        same && other.bits > self.bits && widened.canonical() == self.canonical()
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub fn cidr(text: &str, path: &str, errors: &mut FieldErrors) -> Option<Cidr> {
    let parsed = Cidr::parse(text);
    if parsed.is_none() {
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
    parsed
}

/// A host by name, perhaps with a star in front.
pub fn host(name: &str, path: &str, errors: &mut FieldErrors) {
    if name.contains('*') {
        let fine = name.strip_prefix("*.").is_some_and(|rest| names::dns1123_subdomain(rest).is_ok());
        if !fine {
            errors.invalid(path, name, WILDCARD_WHY);
        }
    } else if let Err(why) = names::dns1123_subdomain(name) {
        errors.invalid(path, name, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_and_addresses() {
        let check = |expect: &str, f: &dyn Fn(&mut FieldErrors)| {
            let mut errors = FieldErrors::new();
            f(&mut errors);
            assert_eq!(errors.to_string(), expect);
        };
        let fine = "[]";
        check(fine, &|e| port(&json!({"port": 80}), "port", "p", e));
        check("p.port: Invalid value: 0: must be between 1 and 65535, inclusive", &|e| {
            port(&json!({}), "port", "p", e)
        });
        check(fine, &|e| port_or_name(&json!("http"), "t", e));
        check("t: Invalid value: 70000: must be between 1 and 65535, inclusive", &|e| {
            port_or_name(&json!(70000), "t", e)
        });
        check(fine, &|e| endpoint_ip("10.0.0.1", "a", e));
        check("a: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)", &|e| {
            endpoint_ip("127.0.0.1", "a", e);
        });
        check("p.protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"", &|e| {
            protocol(&json!({"protocol": "tcp"}), "p", e);
        });
    }

    #[test]
    fn ranges() {
        let canonical = |text: &str| Cidr::parse(text).map(|cidr| cidr.canonical().to_string());
        let check = |text: &str, expect: Option<&str>| assert_eq!(canonical(text).as_deref(), expect, "{text}");
        check("10.9.8.7/24", Some("10.9.8.0/24"));
        check("0.0.0.0/0", Some("0.0.0.0/0"));
        check("2001:db8::1/64", Some("2001:db8::/64"));
        check("::/0", Some("::/0"));
        check("10.9.8.7", None);
        check("10.9.8.7/33", None);
        check("10.9.8.7/+8", None);
        let holds = |outer: &str, inner: &str| Cidr::parse(outer).unwrap().strictly_holds(Cidr::parse(inner).unwrap());
        assert!(holds("10.0.0.0/8", "10.1.0.0/16"));
        assert!(
            !holds("10.0.0.0/8", "10.0.0.0/8") && !holds("10.0.0.0/8", "11.1.0.0/16") && !holds("0.0.0.0/0", "::/1")
        );
    }
}
