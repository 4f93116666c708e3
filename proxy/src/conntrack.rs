//! Forgetting UDP flows whose endpoint left: the kernel would send them there for as long as packets come. It decides
//! only how `conntrack` is called.

use crate::ruleset::{Frontend, StaleFlow};
use std::path::Path;
use tokio::process::Command;

fn arguments(flow: &StaleFlow) -> Vec<String> {
    let mut arguments: Vec<String> = ["--delete", "--proto", "udp"].map(str::to_owned).into();
    let port = match flow.frontend {
        Frontend::Address { ip, port, .. } => {
            arguments.extend(["--orig-dst".to_owned(), ip.to_string()]);
            port
        }
        Frontend::NodePort { port, .. } => port,
    };
    arguments.extend(["--orig-port-dst".to_owned(), port.to_string()]);
    if let Some(backend) = flow.backend {
        arguments.extend(["--reply-src".to_owned(), backend.ip.to_string()]);
    }
    arguments
}

/// Deletes the flows one by one. One that does not exist is fine, which is also what conntrack's failure mostly means.
pub async fn forget(program: &Path, flows: &[StaleFlow]) {
    for flow in flows {
        let output = Command::new(program).args(arguments(flow)).kill_on_drop(true).output().await;
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                if !text.contains("0 flow entries have been deleted") {
                    tracing::warn!(?flow, "conntrack: {}", text.trim());
                }
            }
            Err(error) => {
                tracing::warn!(program = %program.display(), %error, "UDP flows to endpoints that left stay");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruleset::{Backend, Protocol};
    use std::net::Ipv4Addr;

    #[test]
    fn the_flow_is_named_by_where_it_began_and_where_it_went() {
        let frontend =
            Frontend::Address { ip: Ipv4Addr::new(10, 96, 1, 1), protocol: Protocol::Udp, port: 53, inside: false };
        let backend = Some(Backend { ip: Ipv4Addr::new(10, 244, 0, 5), port: 5353 });
        assert_eq!(
            arguments(&StaleFlow { frontend, backend }).join(" "),
            "--delete --proto udp --orig-dst 10.96.1.1 --orig-port-dst 53 --reply-src 10.244.0.5"
        );
        let frontend = Frontend::NodePort { protocol: Protocol::Udp, port: 30053, inside: false };
        assert_eq!(
            arguments(&StaleFlow { frontend, backend: None }).join(" "),
            "--delete --proto udp --orig-port-dst 30053"
        );
    }
}
