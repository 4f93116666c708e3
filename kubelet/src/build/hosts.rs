//! A pod's host name and its `/etc/hosts`. Pure.

use crate::api::Pod;

use super::Machine;

/// The pod's host name (at most 63 characters) and, with a subdomain, its full name.
pub fn names(pod: &Pod, m: &Machine) -> (String, Option<String>) {
    if pod.spec.host_network {
        return (m.node_name.clone(), None);
    }
    let host = pod.spec.hostname.as_deref().filter(|h| !h.is_empty()).unwrap_or(&pod.metadata.name);
    let host: String = host.chars().take(63).collect();
    let host = host.trim_end_matches(['-', '.']).to_owned();
    let subdomain = pod.spec.subdomain.as_deref().filter(|s| !s.is_empty());
    let full = subdomain.map(|s| format!("{host}.{s}.{}.svc.{}", pod.metadata.namespace, m.cluster_domain));
    (host, full)
}

/// What the kernel is told: the full name only when the pod asks for it.
pub fn kernel_name(pod: &Pod, m: &Machine) -> String {
    match names(pod, m) {
        (_, Some(full)) if pod.spec.set_hostname_as_fqdn => full,
        (host, _) => host,
    }
}

/// The text of `/etc/hosts`; on the machine's own network the machine's file is the base.
pub fn text(pod: &Pod, m: &Machine, ips: &[String], machine_hosts: &str) -> String {
    let mut out = if pod.spec.host_network {
        format!("# Kubernetes-managed hosts file (host network).\n{machine_hosts}")
    } else {
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
            .to_owned()
    };
    if !pod.spec.host_network {
        let (host, full) = names(pod, m);
        for ip in ips {
            let all = full.as_ref().map_or_else(|| host.clone(), |f| format!("{f}\t{host}"));
            out.push_str(&format!("{ip}\t{all}\n"));
        }
    }
    if !pod.spec.host_aliases.is_empty() {
        out.push_str("\n# Entries added by HostAliases.\n");
        for alias in &pod.spec.host_aliases {
            out.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.join("\t")));
        }
    }
    out
}
