//! The sandbox of a pod: name, network, DNS, ports, cgroup, namespaces. Pure.

use crate::api::{Container, Pod};
use crate::cgroup;
use crate::config::Config;
use crate::runtime::{LABEL_CLUSTER, LABEL_POD_NAME, LABEL_POD_NAMESPACE, LABEL_POD_UID, v1};

use super::{Machine, dns, hosts};

pub fn config(pod: &Pod, attempt: u32, m: &Machine, config: &Config) -> v1::PodSandboxConfig {
    let meta = &pod.metadata;
    let mut labels: std::collections::HashMap<_, _> = meta.labels.clone().into_iter().collect();
    labels.insert(LABEL_POD_NAME.into(), meta.name.clone());
    labels.insert(LABEL_POD_NAMESPACE.into(), meta.namespace.clone());
    labels.insert(LABEL_POD_UID.into(), meta.uid.to_string());
    labels.insert(LABEL_CLUSTER.into(), m.cluster.clone());
    // On the machine's own network the host name is the machine's.
    let hostname = if pod.spec.host_network { String::new() } else { hosts::kernel_name(pod, m) };
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: meta.name.clone(),
            uid: meta.uid.to_string(),
            namespace: meta.namespace.clone(),
            attempt,
        }),
        hostname,
        log_directory: config.pod_log_dir(&meta.namespace, &meta.name, meta.uid.as_str()).display().to_string(),
        dns_config: Some(dns::config(pod, m)),
        port_mappings: if pod.spec.host_network { vec![] } else { ports(pod) },
        labels,
        annotations: Default::default(),
        linux: Some(linux(pod, m)),
    }
}

fn ports(pod: &Pod) -> Vec<v1::PortMapping> {
    let all = pod.all_containers().flat_map(|c| &c.ports);
    all.filter_map(|p| {
        let host_port = p.host_port.filter(|h| *h > 0)?;
        let protocol = match p.protocol.as_deref() {
            Some("UDP") => v1::Protocol::Udp,
            Some("SCTP") => v1::Protocol::Sctp,
            _ => v1::Protocol::Tcp,
        };
        Some(v1::PortMapping {
            protocol: protocol as i32,
            container_port: p.container_port,
            host_port,
            host_ip: p.host_ip.clone().unwrap_or_default(),
        })
    })
    .collect()
}

/// Which namespaces the pod shares with the machine, and among its containers.
pub fn namespaces(pod: &Pod) -> v1::NamespaceOption {
    let node = |on: bool, otherwise: v1::NamespaceMode| if on { v1::NamespaceMode::Node } else { otherwise } as i32;
    let pid = if pod.spec.share_process_namespace { v1::NamespaceMode::Pod } else { v1::NamespaceMode::Container };
    v1::NamespaceOption {
        network: node(pod.spec.host_network, v1::NamespaceMode::Pod),
        pid: node(pod.spec.host_pid, pid),
        ipc: node(pod.spec.host_ipc, v1::NamespaceMode::Pod),
        target_id: String::new(),
    }
}

fn privileged(c: &Container) -> bool {
    c.security_context.as_ref().is_some_and(|s| s.privileged == Some(true))
}

fn linux(pod: &Pod, m: &Machine) -> v1::LinuxPodSandboxConfig {
    let security = pod.spec.security_context.clone().unwrap_or_default();
    let value = |v: Option<i64>| v.map(|value| v1::Int64Value { value });
    let class = cgroup::qos::class(&pod.spec);
    v1::LinuxPodSandboxConfig {
        cgroup_parent: cgroup::pod_path(&m.config_cgroup_root, class, pod.uid()),
        security_context: Some(v1::LinuxSandboxSecurityContext {
            namespace_options: Some(namespaces(pod)),
            run_as_user: value(security.run_as_user),
            run_as_group: value(security.run_as_user.and(security.run_as_group)),
            readonly_rootfs: false,
            supplemental_groups: super::container::groups(&security),
            privileged: pod.all_containers().any(privileged),
            seccomp: Some(v1::SecurityProfile {
                profile_type: v1::security_profile::ProfileType::RuntimeDefault as i32,
                localhost_ref: String::new(),
            }),
        }),
        sysctls: security.sysctls.into_iter().map(|s| (s.name, s.value)).collect(),
        overhead: None,
        resources: None,
    }
}
