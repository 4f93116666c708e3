//! The link that carries the DNS address on this node: made at the start, and made again when it or its address is lost. It
//! decides only whether something is missing; names and addresses are the configuration's.

use super::{DnsError, LinkConfig};
use std::net::UdpSocket;
use std::time::Duration;
use tokio::process::Command;

/// Looking costs a socket and a small file, no process.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The kernel's routes of this process's network namespace.
const ROUTES: &str = "/proc/self/net/route";

/// Puts the link right whenever something of it is gone. Never returns. Sockets that listen on its address go on: they hold
/// the address, not the link.
pub async fn keep(config: &LinkConfig) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if is_whole(config) {
            continue;
        }
        match ensure(config).await {
            Ok(()) => tracing::warn!(link = config.name, ip = %config.ip, "the link of node DNS was lost; made again"),
            Err(error) => tracing::error!(%error, "the link of node DNS is lost"),
        }
    }
}

/// Whether the address is this node's, and the link is up and leads to the virtual addresses.
fn is_whole(config: &LinkConfig) -> bool {
    // A single address brings no route along.
    let routed = config.prefix_length == 32
        || std::fs::read_to_string(ROUTES).map_or(true, |routes| leads_anywhere(&routes, &config.name));
    routed && UdpSocket::bind((config.ip, 0)).is_ok()
}

fn leads_anywhere(routes: &str, link: &str) -> bool {
    routes.lines().skip(1).any(|line| line.split_whitespace().next() == Some(link))
}

/// Makes the link, gives it the address and sets it up. What is there already is fine.
pub async fn ensure(config: &LinkConfig) -> Result<(), DnsError> {
    let name = config.name.as_str();
    let address = format!("{}/{}", config.ip, config.prefix_length);
    // A bridge without ports: the kernel may lack dummy links, and a bridge needs no peer.
    ip(config, &["link", "add", "name", name, "type", "bridge"]).await?;
    ip(config, &["address", "add", &address, "dev", name]).await?;
    ip(config, &["link", "set", "dev", name, "up"]).await
}

async fn ip(config: &LinkConfig, arguments: &[&str]) -> Result<(), DnsError> {
    let failed = |reason: String| DnsError::Link { name: config.name.clone(), reason };
    let output = Command::new(&config.program).args(arguments).kill_on_drop(true).output().await;
    let output = output.map_err(|error| failed(format!("{}: {error}", config.program.display())))?;
    let text = String::from_utf8_lossy(&output.stderr);
    // iproute2 words: "File exists" for a link or address that is there; newer ones "Address already assigned".
    if output.status.success() || text.contains("File exists") || text.contains("already assigned") {
        return Ok(());
    }
    Err(failed(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_link_without_routes_is_lost_or_down() {
        let routes = "Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100A8C0\t0003\n\
            gantry-dns\t0000600A\t00000000\t0001\n";
        assert!(leads_anywhere(routes, "gantry-dns") && !leads_anywhere(routes, "gantry"));
        assert!(!leads_anywhere("Iface\tDestination\n", "Iface"));
    }

    #[test]
    fn an_address_that_is_not_here_is_lost() {
        let link = |ip: [u8; 4]| LinkConfig {
            name: "none".into(),
            ip: Ipv4Addr::from(ip),
            prefix_length: 32,
            program: "ip".into(),
        };
        assert!(is_whole(&link([127, 0, 0, 1])));
        // RFC 5737: an address that no machine has.
        assert!(!is_whole(&link([198, 51, 100, 1])));
        assert!(!is_whole(&LinkConfig { prefix_length: 16, ..link([127, 0, 0, 1]) }));
    }
}
