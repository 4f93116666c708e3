//! Addresses, ports and protocols, which several kinds check alike. Decides what is well formed; never what is reachable.

use super::value::{i64_at, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use std::net::IpAddr;

pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

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
}
