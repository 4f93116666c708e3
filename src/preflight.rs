//! What has to be true of the machine before anything is changed: root, Debian packages, free ports.
//!
//! It decides which package a missing program comes from. It never installs, starts or writes anything.

use crate::problem::Problem;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Where Debian's containernetworking-plugins puts its programs.
pub const CNI_BIN_DIR: &str = "/usr/lib/cni";

/// A program, the Debian package that ships it, and what it is for.
struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const fn tool(program: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { program, package, purpose }
}

/// Names with a slash are looked up as they stand, others along `PATH` and in the two `sbin` folders.
const TOOLS: &[Tool] = &[
    tool("containerd", "containerd", "runs containers"),
    tool("ctr", "containerd", "imports images"),
    tool("containerd-shim-runc-v2", "containerd", "keeps containers alive"),
    tool("runc", "runc", "starts containers"),
    tool("/usr/lib/cni/ptp", "containernetworking-plugins", "connects pods"),
    tool("/usr/lib/cni/host-local", "containernetworking-plugins", "hands out pod addresses"),
    tool("/usr/lib/cni/portmap", "containernetworking-plugins", "maps host ports"),
    tool("/usr/lib/cni/loopback", "containernetworking-plugins", "gives pods a loopback"),
    tool("nft", "nftables", "programs Services"),
    tool("conntrack", "conntrack", "forgets UDP flows to endpoints that left"),
    tool("iptables", "iptables", "maps host ports, for CNI's portmap"),
    tool("ip", "iproute2", "makes the node's DNS address"),
    tool("setsid", "util-linux", "detaches the guard and containerd"),
];

/// Root is needed for containers, cgroups and nftables.
pub fn check_root() -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Problem::new("gantry has to run as root: it starts containers and programs nftables; try again with sudo"))
}

/// Every tool in the table exists, except that `containerd` may be given by path.
pub fn check_tools(containerd: Option<&Path>) -> Result<(), Problem> {
    if let Some(path) = containerd
        && !is_program(path)
    {
        return Err(Problem::new(format!("--containerd {}: there is no such program", path.display())));
    }
    judge_tools(|program| (program == "containerd" && containerd.is_some()) || find_program(program).is_some())
}

fn judge_tools(present: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !present(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: BTreeSet<&str> = missing.iter().map(|tool| tool.package).collect();
    let programs: Vec<String> =
        missing.iter().map(|tool| format!("{} ({}, {})", tool.program, tool.package, tool.purpose)).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    Err(Problem::new(format!(
        "missing: {}; run: apt-get install -y --no-install-recommends {}",
        programs.join(", "),
        packages.join(" ")
    )))
}

/// The full path of a program, looked up as a root shell would.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).map(|dir| dir.join(name)).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Each address can be listened on. `flag` names the option that moves it.
pub fn check_ports(wanted: &[(SocketAddr, &str)]) -> Result<(), Problem> {
    for (address, flag) in wanted {
        if let Err(error) = TcpListener::bind(address) {
            let what = match error.kind() {
                std::io::ErrorKind::AddrInUse => in_use(address.port(), holder_of(address.port()), flag),
                _ => format!("cannot listen on {address}: {error}; choose another address with {flag}"),
            };
            return Err(Problem::new(what));
        }
    }
    Ok(())
}

fn in_use(port: u16, holder: Option<Holder>, flag: &str) -> String {
    match holder {
        // Another port is not enough for two nodes on one machine.
        Some(Holder { name, pid }) if name == "gantry" && flag != "--listen" => format!(
            "port {port} is in use by another cluster of this machine, gantry (process {pid}); stop it with `gantry down` and \
             its --data-dir, or give this one a network namespace of its own (`ip netns exec`) and another --cgroup-root"
        ),
        Some(Holder { name, pid }) => {
            format!("port {port} is in use by {name} (process {pid}); stop that process or choose another with {flag}")
        }
        None => format!("port {port} is in use; stop that process or choose another with {flag}"),
    }
}

/// A process, by the name that the kernel shows.
struct Holder {
    name: String,
    pid: u32,
}

/// Which process listens on a TCP port, from /proc.
fn holder_of(port: u16) -> Option<Holder> {
    let inodes: BTreeSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|text| listening_inodes(&text, port))
        .collect();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(files) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = files.flatten().any(|file| {
            std::fs::read_link(file.path())
                .ok()
                .and_then(|link| socket_inode(&link))
                .is_some_and(|i| inodes.contains(&i))
        });
        if holds {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(Holder { name: name.trim().to_owned(), pid });
        }
    }
    None
}

fn socket_inode(link: &Path) -> Option<String> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
}

/// The inodes of the listening sockets on `port` in the text of /proc/net/tcp or tcp6.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[1].ends_with(&suffix) && row[3] == LISTEN)
        .map(|row| row[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_name_their_package_once() {
        let text = judge_tools(|program| !program.contains("cni") && program != "nft").unwrap_err().to_string();
        assert!(text.ends_with("install -y --no-install-recommends containernetworking-plugins nftables"), "{text}");
        assert!(text.contains("nft (nftables, programs Services)"), "{text}");
        assert!(!text.contains('\n'));
        judge_tools(|_| true).unwrap();
    }

    #[test]
    fn a_port_in_use_names_who_holds_it() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let text = check_ports(&[(address, "--api-port")]).unwrap_err().to_string();
        assert!(text.contains(&format!("port {} is in use by ", address.port())), "{text}");
        assert!(text.contains(&format!("(process {})", std::process::id())), "{text}");
        assert!(text.ends_with("choose another with --api-port"), "{text}");
        drop(holder);
        check_ports(&[(address, "--api-port")]).unwrap();
    }

    #[test]
    fn another_cluster_on_the_port_is_called_that() {
        let gantry = Holder { name: "gantry".into(), pid: 7 };
        let text = in_use(6443, Some(gantry), "--api-port");
        assert!(text.contains("another cluster") && text.contains("process 7"), "{text}");
        assert!(text.contains("--cgroup-root") && !text.contains("--api-port"), "{text}");
    }

    #[test]
    fn a_role_that_listens_may_choose_another_port() {
        let text = in_use(2380, Some(Holder { name: "gantry".into(), pid: 7 }), "--listen");
        assert_eq!(
            text,
            "port 2380 is in use by gantry (process 7); stop that process or choose another with --listen"
        );
    }

    #[test]
    fn a_given_containerd_must_exist() {
        let text = check_tools(Some(Path::new("/no/such/containerd"))).unwrap_err().to_string();
        assert!(text.contains("/no/such/containerd"), "{text}");
    }
}
