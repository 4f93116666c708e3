//! A pod's specification as the agent reads it. Pure data; defaults are those of the API.

use std::collections::BTreeMap;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::security::{PodSecurityContext, SecurityContext};
use super::status::PodStatus;
use super::volume::{KeyRef, NamedRef, Volume, VolumeMount};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

impl Object for Pod {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Pod {
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_str()
    }
    /// `web_default(uid)`, as Kubernetes names a pod in messages.
    pub fn label(&self) -> String {
        format!("{}_{}({})", self.metadata.name, self.metadata.namespace, self.metadata.uid)
    }
    /// Init, ordinary and ephemeral containers in the order in which they start.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().chain(&self.spec.containers).chain(&self.spec.ephemeral_containers)
    }
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.all_containers().find(|c| c.name == name)
    }
    pub fn is_terminal(&self) -> bool {
        self.status.is_final()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub ephemeral_containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub node_name: Option<String>,
    pub restart_policy: RestartPolicy,
    pub termination_grace_period_seconds: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub dns_policy: Option<String>,
    pub dns_config: Option<PodDnsConfig>,
    pub service_account_name: Option<String>,
    pub host_network: bool,
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    pub share_process_namespace: bool,
    pub security_context: Option<PodSecurityContext>,
    pub image_pull_secrets: Vec<NamedRef>,
    pub hostname: Option<String>,
    pub subdomain: Option<String>,
    #[serde(rename = "setHostnameAsFQDN")]
    pub set_hostname_as_fqdn: bool,
    pub host_aliases: Vec<HostAlias>,
    pub enable_service_links: Option<bool>,
    pub priority: Option<i32>,
    pub priority_class_name: Option<String>,
    pub readiness_gates: Vec<ReadinessGate>,
    pub overhead: BTreeMap<String, Quantity>,
    pub runtime_class_name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub image: String,
    pub image_pull_policy: Option<String>,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub working_dir: Option<String>,
    pub ports: Vec<ContainerPort>,
    pub env: Vec<EnvVar>,
    pub env_from: Vec<EnvFrom>,
    pub resources: Resources,
    pub volume_mounts: Vec<VolumeMount>,
    pub liveness_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
    pub lifecycle: Option<Lifecycle>,
    pub termination_message_path: Option<String>,
    pub termination_message_policy: Option<String>,
    pub security_context: Option<SecurityContext>,
    pub restart_policy: Option<RestartPolicy>,
    pub target_container_name: Option<String>,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
}

impl Container {
    /// `Always` for a missing or `latest` tag, else `IfNotPresent`: the API's default.
    pub fn pull_policy(&self) -> &str {
        self.image_pull_policy.as_deref().unwrap_or_else(|| {
            let name = self.image.rsplit('/').next().unwrap_or_default();
            let latest = !name.contains('@') && (!name.contains(':') || name.ends_with(":latest"));
            if latest { "Always" } else { "IfNotPresent" }
        })
    }
    /// An init container that keeps running beside the ordinary ones.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
    pub fn message_path(&self) -> &str {
        self.termination_message_path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/dev/termination-log")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    pub name: Option<String>,
    pub container_port: i32,
    pub host_port: Option<i32>,
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    pub protocol: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    pub requests: BTreeMap<String, Quantity>,
    pub limits: BTreeMap<String, Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVar {
    pub name: String,
    pub value: Option<String>,
    pub value_from: Option<EnvSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvSource {
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
    pub config_map_key_ref: Option<KeyRef>,
    pub secret_key_ref: Option<KeyRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvFrom {
    pub prefix: String,
    pub config_map_ref: Option<NamedRef>,
    pub secret_ref: Option<NamedRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FieldRef {
    pub field_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceFieldRef {
    pub container_name: Option<String>,
    pub resource: String,
    pub divisor: Option<Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDnsConfig {
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<DnsOption>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DnsOption {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostAlias {
    pub ip: String,
    pub hostnames: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    pub condition_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    pub post_start: Option<Handler>,
    pub pre_stop: Option<Handler>,
}

/// What a probe or a lifecycle hook does. Exactly one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Handler {
    pub exec: Option<ExecAction>,
    pub http_get: Option<HttpGetAction>,
    pub tcp_socket: Option<TcpSocketAction>,
    pub grpc: Option<GrpcAction>,
    pub sleep: Option<SleepAction>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecAction {
    pub command: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpGetAction {
    pub path: Option<String>,
    /// A number, or the name of a port of the container.
    pub port: Value,
    pub host: Option<String>,
    pub scheme: Option<String>,
    pub http_headers: Vec<HttpHeader>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TcpSocketAction {
    pub port: Value,
    pub host: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcAction {
    pub port: i32,
    pub service: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SleepAction {
    pub seconds: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    #[serde(flatten)]
    pub handler: Handler,
    pub initial_delay_seconds: i64,
    pub timeout_seconds: Option<i64>,
    pub period_seconds: Option<i64>,
    pub success_threshold: Option<u32>,
    pub failure_threshold: Option<u32>,
    pub termination_grace_period_seconds: Option<i64>,
}

impl Probe {
    pub fn timeout_s(&self) -> u64 {
        u64::try_from(self.timeout_seconds.unwrap_or(1)).unwrap_or(1).max(1)
    }
    pub fn period_ms(&self) -> u64 {
        u64::try_from(self.period_seconds.unwrap_or(10)).unwrap_or(10).max(1) * 1000
    }
    pub fn initial_delay_ms(&self) -> u64 {
        u64::try_from(self.initial_delay_seconds).unwrap_or(0) * 1000
    }
    pub fn success_threshold(&self) -> u32 {
        self.success_threshold.unwrap_or(1).max(1)
    }
    pub fn failure_threshold(&self) -> u32 {
        self.failure_threshold.unwrap_or(3).max(1)
    }
}
