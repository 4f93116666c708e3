//! CRI messages to the agent's own observations. Pure; decides nothing but names.

use gantry_apimachinery::time::Timestamp;

use super::{
    ANNOTATION_IMAGE, ANNOTATION_MESSAGE_FILE, ContainerSeen, ImageSeen, LABEL_CLUSTER, LABEL_CONTAINER_NAME,
    LABEL_POD_NAME, LABEL_POD_NAMESPACE, LABEL_POD_UID, RunState, SandboxSeen, UsageSeen, v1,
};

type Strings = std::collections::HashMap<String, String>;

fn get(map: &Strings, key: &str) -> String {
    map.get(key).cloned().unwrap_or_default()
}

/// CRI counts in nanoseconds since 1970; zero is "not yet".
pub fn timestamp(ns: i64) -> Option<Timestamp> {
    (ns > 0).then(|| Timestamp::from_micros(ns / 1000))
}

pub fn sandbox(s: v1::PodSandbox) -> SandboxSeen {
    let meta = s.metadata.unwrap_or_default();
    SandboxSeen {
        id: s.id,
        pod_uid: get(&s.labels, LABEL_POD_UID),
        pod_name: get(&s.labels, LABEL_POD_NAME),
        pod_namespace: get(&s.labels, LABEL_POD_NAMESPACE),
        cluster: get(&s.labels, LABEL_CLUSTER),
        attempt: meta.attempt,
        ready: s.state == v1::PodSandboxState::SandboxReady as i32,
        created_at_ns: s.created_at,
        ips: vec![],
    }
}

pub fn sandbox_status(s: v1::PodSandboxStatus) -> SandboxSeen {
    let meta = s.metadata.unwrap_or_default();
    let mut ips = vec![];
    if let Some(network) = s.network {
        ips.push(network.ip);
        ips.extend(network.additional_ips.into_iter().map(|i| i.ip));
        ips.retain(|ip| !ip.is_empty());
    }
    SandboxSeen {
        id: s.id,
        pod_uid: get(&s.labels, LABEL_POD_UID),
        pod_name: get(&s.labels, LABEL_POD_NAME),
        pod_namespace: get(&s.labels, LABEL_POD_NAMESPACE),
        cluster: get(&s.labels, LABEL_CLUSTER),
        attempt: meta.attempt,
        ready: s.state == v1::PodSandboxState::SandboxReady as i32,
        created_at_ns: s.created_at,
        ips,
    }
}

fn run_state(state: i32) -> RunState {
    match v1::ContainerState::try_from(state) {
        Ok(v1::ContainerState::ContainerCreated) => RunState::Created,
        Ok(v1::ContainerState::ContainerRunning) => RunState::Running,
        Ok(v1::ContainerState::ContainerExited) => RunState::Exited,
        _ => RunState::Unknown,
    }
}

/// The name that the pod used, as far as it is known: runtimes report the resolved one.
fn image_name(annotations: &Strings, spec: Option<v1::ImageSpec>) -> String {
    let named = get(annotations, ANNOTATION_IMAGE);
    if named.is_empty() { spec.unwrap_or_default().image } else { named }
}

pub fn container(c: v1::Container) -> ContainerSeen {
    let meta = c.metadata.unwrap_or_default();
    ContainerSeen {
        id: c.id,
        sandbox_id: c.pod_sandbox_id,
        pod_uid: get(&c.labels, LABEL_POD_UID),
        name: meta.name,
        attempt: meta.attempt,
        state: run_state(c.state),
        image: image_name(&c.annotations, c.image),
        image_id: c.image_ref,
        created_at_ns: c.created_at,
        message_file: get(&c.annotations, ANNOTATION_MESSAGE_FILE),
        ..ContainerSeen::default()
    }
}

pub fn container_status(c: v1::ContainerStatus) -> ContainerSeen {
    let meta = c.metadata.unwrap_or_default();
    ContainerSeen {
        id: c.id,
        sandbox_id: String::new(),
        pod_uid: get(&c.labels, LABEL_POD_UID),
        name: meta.name,
        attempt: meta.attempt,
        state: run_state(c.state),
        image: image_name(&c.annotations, c.image),
        image_id: c.image_ref,
        created_at_ns: c.created_at,
        started_at: timestamp(c.started_at),
        finished_at: timestamp(c.finished_at),
        exit_code: c.exit_code,
        reason: c.reason,
        message: c.message,
        log_path: c.log_path,
        message_file: get(&c.annotations, ANNOTATION_MESSAGE_FILE),
    }
}

pub fn image(i: v1::Image) -> ImageSeen {
    ImageSeen {
        id: i.id,
        tags: i.repo_tags,
        digests: i.repo_digests,
        size_bytes: i.size,
        uid: i.uid.map(|u| u.value),
        username: i.username,
    }
}

pub fn usage(s: v1::ContainerStats) -> UsageSeen {
    let attributes = s.attributes.unwrap_or_default();
    let (cpu, memory) = (s.cpu.unwrap_or_default(), s.memory.unwrap_or_default());
    UsageSeen {
        container_id: attributes.id,
        pod_uid: get(&attributes.labels, LABEL_POD_UID),
        name: get(&attributes.labels, LABEL_CONTAINER_NAME),
        at_ns: cpu.timestamp,
        cpu_core_ns: cpu.usage_core_nano_seconds.unwrap_or_default().value,
        memory_working_set_bytes: memory.working_set_bytes.unwrap_or_default().value,
    }
}
