//! What this machine calls itself: host name and address, unless flags say otherwise. It changes nothing.

use crate::problem::Problem;
use anyhow::Context;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// The machine's name in the cluster: lower case, as Kubernetes wants node names.
pub fn node_name(given: Option<&str>) -> anyhow::Result<String> {
    let name = match given {
        Some(name) => name.to_owned(),
        None => {
            let system = rustix::system::uname();
            system.nodename().to_str().context("the host name is not text")?.to_lowercase()
        }
    };
    if is_node_name(&name) {
        return Ok(name);
    }
    Err(Problem::new(format!(
        "{name:?} cannot name a machine: use letters, digits, '-' and '.', at most 253; give --node-name"
    ))
    .into())
}

/// RFC 1123 subdomain.
fn is_node_name(name: &str) -> bool {
    let label_ok = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label_ok)
}

/// The address that packets to elsewhere would carry. Connecting a UDP socket only asks the routing table; nothing is
/// sent. A machine without a route is on its own: loopback.
pub fn node_ip(given: Option<IpAddr>) -> IpAddr {
    let routed = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Documentation space (RFC 5737): any address that is not on a local link asks the same question.
        socket.connect(("198.51.100.1", 9))?;
        Ok(socket.local_addr()?.ip())
    };
    given.or_else(|| routed().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Seconds since 1970.
pub fn unix_now_s() -> i64 {
    use gantry_apimachinery::clock::{Clock, SystemClock};
    SystemClock.now().micros() / 1_000_000
}

/// The first address of an IPv4 CIDR, and its mask.
fn range(cidr: &str) -> Result<(u32, u32), Problem> {
    let wrong = || Problem::new(format!("{cidr:?} is not an IPv4 range such as 10.96.0.0/16"));
    let (base, length) = cidr.split_once('/').ok_or_else(wrong)?;
    let base: Ipv4Addr = base.parse().map_err(|_| wrong())?;
    let length: u32 = length.parse().ok().filter(|length| (8..=28).contains(length)).ok_or_else(wrong)?;
    let mask = u32::MAX << (32 - length);
    Ok((u32::from(base) & mask, mask))
}

/// The `n`-th address of an IPv4 CIDR.
pub fn nth_address(cidr: &str, n: u32) -> Result<IpAddr, Problem> {
    Ok(IpAddr::V4(Ipv4Addr::from(range(cidr)?.0 + n)))
}

/// An address is a Service's or a pod's, never both.
pub fn check_ranges(service_cidr: &str, cluster_cidr: &str) -> Result<(), Problem> {
    let ((services, service_mask), (pods, pod_mask)) = (range(service_cidr)?, range(cluster_cidr)?);
    // Two ranges overlap exactly when one holds the other.
    let common = service_mask & pod_mask;
    if services & common == pods & common {
        return Err(Problem::new(format!(
            "--service-cidr {service_cidr} and --cluster-cidr {cluster_cidr} overlap: Services and pods need ranges of their own"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, expect) in
            [("m1", true), ("a.b-c.d", true), ("", false), ("A", false), ("-a", false), ("a..b", false)]
        {
            assert_eq!(is_node_name(name), expect, "{name}");
        }
        assert_eq!(node_name(Some("m7")).unwrap(), "m7");
        assert!(node_name(Some("M_7")).unwrap_err().to_string().contains("--node-name"));
    }

    #[test]
    fn addresses() {
        assert_eq!(nth_address("10.96.0.0/16", 1).unwrap().to_string(), "10.96.0.1");
        assert_eq!(nth_address("10.96.7.9/16", 1).unwrap().to_string(), "10.96.0.1");
        for wrong in ["10.96.0.0", "10.96.0.0/33", "x/16", "10.96.0.0/4"] {
            assert!(nth_address(wrong, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn services_and_pods_never_share_addresses() {
        for (services, pods, expect) in [
            ("10.96.0.0/16", "10.244.0.0/16", true),
            ("10.96.0.0/16", "10.96.0.0/16", false),
            ("10.96.0.0/16", "10.96.128.0/20", false),
            ("10.96.4.0/24", "10.0.0.0/8", false),
            ("10.96.0.0/16", "10.97.0.0/16", true),
        ] {
            assert_eq!(check_ranges(services, pods).is_ok(), expect, "{services} {pods}");
        }
    }
}
