//! The pod network of this machine: every pod is routed (`ptp`), addresses come from the machine's podCIDR, host ports
//! through `portmap`. Writes one file, only when it differs.

use std::io;

use serde_json::{Value, json};

use crate::config::Config;

const FILE: &str = "10-gantry.conflist";

/// The configuration; addresses handed out are remembered below the agent's root, so that they go with it.
pub fn conflist(config: &Config, pod_cidr: &str) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "gantry",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pod_cidr}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": config.root.join("cni"),
                }
            },
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
        ]
    })
}

pub fn ensure(config: &Config, pod_cidr: &str) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(&conflist(config, pod_cidr))?;
    let path = config.cni_dir.join(FILE);
    if std::fs::read(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::create_dir_all(&config.cni_dir)?;
    let staged = config.cni_dir.join(".gantry.new");
    std::fs::write(&staged, text)?;
    std::fs::rename(staged, path)
}
