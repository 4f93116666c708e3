//! What a pod's `/etc/resolv.conf` says, by its DNS policy. Pure.

use crate::api::Pod;
use crate::runtime::v1;

use super::Machine;

/// The three lists of a resolver configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

impl Resolver {
    /// Reads the text of a `resolv.conf`.
    pub fn parse(text: &str) -> Self {
        let mut r = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let keyword = words.next().unwrap_or_default();
            let rest = words.map(str::to_owned);
            match keyword {
                "nameserver" => r.servers.extend(rest.take(1)),
                // The last search line counts.
                "search" | "domain" => r.searches = rest.collect(),
                "options" => r.options = rest.collect(),
                _ => {}
            }
        }
        r
    }
}

fn dedup(list: Vec<String>, limit: usize) -> Vec<String> {
    let mut out: Vec<String> = vec![];
    for item in list {
        if !out.contains(&item) {
            out.push(item);
        }
    }
    out.truncate(limit);
    out
}

/// Options merged by name; the pod's win.
fn merge_options(base: Vec<String>, pod: &Pod) -> Vec<String> {
    let Some(config) = &pod.spec.dns_config else { return base };
    let name = |o: &String| o.split(':').next().unwrap_or_default().to_owned();
    let mut out = base;
    for o in &config.options {
        out.retain(|b| name(b) != o.name);
        out.push(o.value.as_ref().map_or_else(|| o.name.clone(), |v| format!("{}:{v}", o.name)));
    }
    out
}

/// Always a whole configuration, so that no pod inherits the machine's by accident.
pub fn config(pod: &Pod, m: &Machine) -> v1::DnsConfig {
    let ns = &pod.metadata.namespace;
    let policy = pod.spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let cluster = match policy {
        "ClusterFirst" => !pod.spec.host_network,
        "ClusterFirstWithHostNet" => true,
        _ => false,
    };
    let base = if policy == "None" {
        Resolver::default()
    } else if cluster {
        let d = &m.cluster_domain;
        let own = [format!("{ns}.svc.{d}"), format!("svc.{d}"), d.clone()];
        Resolver {
            servers: m.cluster_dns.clone(),
            searches: own.into_iter().chain(m.resolver.searches.clone()).collect(),
            options: vec!["ndots:5".into()],
        }
    } else {
        m.resolver.clone()
    };
    let extra = pod.spec.dns_config.clone().unwrap_or_default();
    v1::DnsConfig {
        servers: dedup(base.servers.into_iter().chain(extra.nameservers).collect(), 3),
        searches: dedup(base.searches.into_iter().chain(extra.searches).collect(), 32),
        options: merge_options(base.options, pod),
    }
}
