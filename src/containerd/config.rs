//! The text of containerd's configuration (version 2, containerd ≥ 1.6). It never writes it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What differs between machines.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Root, state, socket and the rest are folders of this one.
    pub dir: PathBuf,
    pub sandbox_image: String,
    pub cni_bin_dir: PathBuf,
    /// Without CAP_SYS_RESOURCE no process may lower its oom_score_adj, and no sandbox would start.
    pub restrict_oom_score_adj: bool,
}

/// Not loaded: what the CRI plugin does not need costs start time and memory.
const DISABLED_PLUGINS: &[&str] = &[
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.internal.v1.tracing",
    "io.containerd.internal.v1.restart",
];

/// Streaming (exec, attach, port-forward) listens on loopback: only this machine's kubelet connects to it.
pub fn render(settings: &Settings) -> String {
    let quoted = |name: &str| quote(&settings.dir.join(name));
    let mut text = String::from("# Written by gantry at every start; edits are lost.\nversion = 2\n");
    let disabled: Vec<String> = DISABLED_PLUGINS.iter().map(|name| format!("{name:?}")).collect();
    write!(
        text,
        r#"root = {root}
state = {state}
disabled_plugins = [{disabled}]
[debug]
  level = "warn"
[grpc]
  address = {socket}
[ttrpc]
  address = {ttrpc}
[plugins."io.containerd.internal.v1.opt"]
  path = {opt}
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = {restrict}
  netns_mounts_under_state_dir = true
  sandbox_image = "{sandbox}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  max_container_log_line_size = 16384
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = {runc}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {cni_bin}
    conf_dir = {cni}
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {certs}
"#,
        disabled = disabled.join(", "),
        restrict = settings.restrict_oom_score_adj,
        sandbox = settings.sandbox_image,
        cni_bin = quote(&settings.cni_bin_dir),
        root = quoted("root"),
        state = quoted("state"),
        socket = quoted("containerd.sock"),
        ttrpc = quoted("containerd.sock.ttrpc"),
        opt = quoted("opt"),
        runc = quoted("runc"),
        cni = quoted("cni"),
        certs = quoted("certs.d"),
    )
    .expect("writing to a string cannot fail");
    text
}

/// A TOML basic string: JSON's escapes are TOML's.
fn quote(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

/// Whether this process lacks CAP_SYS_RESOURCE (bit 24 of the effective set in /proc/self/status).
pub fn oom_score_adj_is_restricted() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| !has_sys_resource(&status))
}

fn has_sys_resource(status: &str) -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_RESOURCE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_under_the_directory() {
        let text = render(&Settings {
            dir: "/d/containerd".into(),
            sandbox_image: "docker.io/library/pause:local".to_owned(),
            cni_bin_dir: "/usr/lib/cni".into(),
            restrict_oom_score_adj: true,
        });
        for line in [
            r#"root = "/d/containerd/root""#,
            r#"  address = "/d/containerd/containerd.sock""#,
            r#"    conf_dir = "/d/containerd/cni""#,
            r#"        Root = "/d/containerd/runc""#,
            "  netns_mounts_under_state_dir = true",
            "  restrict_oom_score_adj = true",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("/run/") && !text.contains("/var/"), "{text}");
    }

    #[test]
    fn a_path_stays_one_string() {
        let text = render(&Settings {
            dir: "/d \"x\\y".into(),
            sandbox_image: "pause".to_owned(),
            cni_bin_dir: "/usr/lib/cni".into(),
            restrict_oom_score_adj: false,
        });
        assert!(text.contains("root = \"/d \\\"x\\\\y/root\"\n"), "{text}");
    }

    #[test]
    fn the_capability_is_read_from_status() {
        assert!(has_sys_resource("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_sys_resource("Name:\tx\nCapEff:\t00000000feffffff\n"));
        assert!(!has_sys_resource("Name:\tx\n"));
    }
}
