//! The link that carries the DNS address on this node. It decides nothing: it makes what the configuration names.

use super::{DnsError, LinkConfig};
use tokio::process::Command;

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
