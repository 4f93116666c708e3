//! A container's configuration: command, environment, mounts, limits, security. Pure.

use std::collections::BTreeMap;

use crate::api::security::{PodSecurityContext, SeccompProfile, SecurityContext};
use crate::api::{Container, Pod};
use crate::cgroup;
use crate::runtime::{
    ANNOTATION_IMAGE, ANNOTATION_MESSAGE_FILE, ImageSeen, LABEL_CONTAINER_NAME, LABEL_POD_NAME, LABEL_POD_NAMESPACE,
    LABEL_POD_UID, v1,
};

use super::{Machine, env, sandbox};

/// What was looked up and made for one container before it is created.
pub struct Inputs<'a> {
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub attempt: u32,
    pub image: &'a ImageSeen,
    pub env: Vec<(String, String)>,
    pub mounts: Vec<v1::Mount>,
    pub message_file: String,
    /// The id of the container whose processes an ephemeral container wants to see.
    pub target_id: Option<String>,
}

/// The message for the runtime, or why the pod's wish cannot be granted.
pub fn config(i: Inputs<'_>, m: &Machine) -> Result<v1::ContainerConfig, String> {
    let (pod, c) = (i.pod, i.container);
    let vars: BTreeMap<String, String> = i.env.iter().cloned().collect();
    let expand = |list: &[String]| list.iter().map(|s| env::expand(s, &vars)).collect();
    let meta = &pod.metadata;
    let labels = [
        (LABEL_POD_NAME, meta.name.clone()),
        (LABEL_POD_NAMESPACE, meta.namespace.clone()),
        (LABEL_POD_UID, meta.uid.to_string()),
        (LABEL_CONTAINER_NAME, c.name.clone()),
    ];
    let annotations = [(ANNOTATION_IMAGE, c.image.clone()), (ANNOTATION_MESSAGE_FILE, i.message_file)];
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: c.name.clone(), attempt: i.attempt }),
        image: Some(v1::ImageSpec {
            image: i.image.id.clone(),
            user_specified_image: c.image.clone(),
            ..Default::default()
        }),
        command: expand(&c.command),
        args: expand(&c.args),
        working_dir: c.working_dir.clone().unwrap_or_default(),
        envs: i.env.into_iter().map(|(key, value)| v1::KeyValue { key, value }).collect(),
        mounts: i.mounts,
        devices: vec![],
        labels: labels.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        annotations: annotations.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        log_path: format!("{}/{}.log", c.name, i.attempt),
        stdin: c.stdin,
        stdin_once: c.stdin_once,
        tty: c.tty,
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(cgroup::container_resources(&pod.spec, c, m.memory_capacity)),
            security_context: Some(security(pod, c, i.image, i.target_id)?),
        }),
    })
}

/// The groups that a pod's processes are in beside their own.
pub fn groups(security: &PodSecurityContext) -> Vec<i64> {
    security.fs_group.into_iter().chain(security.supplemental_groups.iter().copied()).collect()
}

fn security(
    pod: &Pod,
    c: &Container,
    image: &ImageSeen,
    target_id: Option<String>,
) -> Result<v1::LinuxContainerSecurityContext, String> {
    let of_pod = pod.spec.security_context.clone().unwrap_or_default();
    let own = c.security_context.clone().unwrap_or_default();
    let run_as_user = own.run_as_user.or(of_pod.run_as_user);
    let run_as_group = own.run_as_group.or(of_pod.run_as_group);
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) {
        non_root(pod, c, run_as_user, image)?;
    }
    let privileged = own.privileged == Some(true);
    let capabilities = own.capabilities.clone().unwrap_or_default();
    let mut namespaces = sandbox::namespaces(pod);
    if let Some(id) = target_id {
        namespaces.pid = v1::NamespaceMode::Target as i32;
        namespaces.target_id = id;
    }
    let value = |v: Option<i64>| v.map(|value| v1::Int64Value { value });
    // A group without a user is refused by runtimes: the image's user is named then.
    let image_user = image.uid.or_else(|| image.username.is_empty().then_some(0));
    let named = run_as_user.or_else(|| run_as_group.and(image_user));
    let by_name = run_as_user.is_none() && named.is_none();
    Ok(v1::LinuxContainerSecurityContext {
        capabilities: Some(v1::Capability { add_capabilities: capabilities.add, drop_capabilities: capabilities.drop }),
        privileged,
        namespace_options: Some(namespaces),
        run_as_user: value(named.or(image.uid)),
        run_as_username: if by_name && image.uid.is_none() { image.username.clone() } else { String::new() },
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(&of_pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        run_as_group: value(run_as_group.filter(|_| named.is_some() || image.uid.is_some())),
        masked_paths: if privileged || unmasked(&own) { vec![] } else { strings(&MASKED) },
        readonly_paths: if privileged || unmasked(&own) { vec![] } else { strings(&READ_ONLY) },
        seccomp: Some(seccomp(own.seccomp_profile.as_ref().or(of_pod.seccomp_profile.as_ref()), privileged)),
    })
}

const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

fn unmasked(own: &SecurityContext) -> bool {
    own.proc_mount.as_deref() == Some("Unmasked")
}

fn seccomp(profile: Option<&SeccompProfile>, privileged: bool) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    let (kind, file) = match profile.map(|p| (p.kind.as_str(), p.localhost_profile.clone())) {
        Some(("RuntimeDefault", _)) => (ProfileType::RuntimeDefault, None),
        Some(("Localhost", file)) => (ProfileType::Localhost, file),
        _ => (ProfileType::Unconfined, None),
    };
    let kind = if privileged { ProfileType::Unconfined } else { kind };
    v1::SecurityProfile { profile_type: kind as i32, localhost_ref: file.unwrap_or_default() }
}

fn non_root(pod: &Pod, c: &Container, user: Option<i64>, image: &ImageSeen) -> Result<(), String> {
    let whose = format!("(pod: \"{}\", container: {})", pod.label(), c.name);
    match user.or(image.uid) {
        Some(0) if user.is_some() => Err(format!("container's runAsUser breaks non-root policy {whose}")),
        Some(0) => Err(format!("container has runAsNonRoot and image will run as root {whose}")),
        Some(_) => Ok(()),
        None if image.username.is_empty() => {
            Err(format!("container has runAsNonRoot and image will run as root {whose}"))
        }
        None => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {whose}",
            image.username
        )),
    }
}
