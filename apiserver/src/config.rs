//! What an API server is told at start. Decides defaults; reads no file and no environment.

use crate::audit::LogConfig;
use crate::cache::HistoryLimits;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// PEM texts for calling node agents. The certificate's common name is `kube-apiserver-kubelet-client`.
#[derive(Clone, Debug, Default)]
pub struct KubeletClientPem {
    pub ca: String,
    pub cert: String,
    pub key: String,
}

/// PEM texts for calling servers that serve other groups. The certificate's common name is `front-proxy-client`.
#[derive(Clone, Debug, Default)]
pub struct FrontProxyPem {
    pub ca: String,
    pub cert: String,
    pub key: String,
}

/// A server that is asked for a decision, as a kubeconfig names it. PEM texts.
#[derive(Clone, Debug, Default)]
pub struct WebhookServer {
    pub url: String,
    pub ca: String,
    pub skip_verify: bool,
    /// Certificate and key with which this server comes.
    pub client: Option<(String, String)>,
    pub bearer: Option<String>,
}

/// Who knows the tokens that this server does not.
#[derive(Clone, Debug, Default)]
pub struct TokenWebhook {
    pub server: WebhookServer,
    pub cache_s: u64,
}

/// Who knows permissions that this server does not.
#[derive(Clone, Debug, Default)]
pub struct AccessWebhook {
    pub server: WebhookServer,
    pub allowed_s: u64,
    pub denied_s: u64,
}

/// Whose identity tokens count, and what their claims mean: Kubernetes' `--oidc-*`.
#[derive(Clone, Debug, Default)]
pub struct OidcConfig {
    pub issuer_url: String,
    pub client_id: String,
    pub username_claim: String,
    /// `None`: the issuer, except for email addresses; `-`: nothing.
    pub username_prefix: Option<String>,
    /// Empty: no groups.
    pub groups_claim: String,
    pub groups_prefix: String,
    pub required_claims: BTreeMap<String, String>,
    pub signing_algs: Vec<String>,
    /// Whom to believe to be the issuer (PEM).
    pub ca: String,
}

/// Proxies that say in headers whom they speak for: Kubernetes' `--requestheader-*`.
#[derive(Clone, Debug, Default)]
pub struct RequestHeaderConfig {
    /// Signs proxies' certificates (PEM). The listener has to take those of both authorities.
    pub ca: String,
    /// Their common names; none: any.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

/// What is written down of requests, and where.
#[derive(Clone, Debug, Default)]
pub struct AuditConfig {
    /// `audit.k8s.io/v1` Policy.
    pub policy: Value,
    pub log: LogConfig,
}

#[derive(Clone, Debug)]
pub struct Config {
    /// The first address of the Services' network and its prefix length. `kubernetes.default` gets the first usable address.
    pub service_cidr: (Ipv4Addr, u8),
    /// Addresses of the network that are never given out by chance: cluster DNS.
    pub reserved_ips: Vec<Ipv4Addr>,
    /// Inclusive.
    pub node_ports: (u16, u16),
    /// Where other machines reach this server; published as the endpoints of `kubernetes.default`.
    pub advertise: Option<(IpAddr, u16)>,
    /// `iss` of service-account tokens.
    pub issuer: String,
    /// The audience of tokens that name none.
    pub audience: String,
    /// The service-account key: PKCS#8 and SubjectPublicKeyInfo in PEM.
    pub token_private_key: String,
    pub token_public_key: String,
    /// `None`: logs and exec are refused.
    pub kubelet: Option<KubeletClientPem>,
    /// How much is done at once: the seats of all priority levels together, at least one.
    pub seats: usize,
    /// Signs clients' certificates (PEM); other servers are told.
    pub client_ca: String,
    /// `None`: other servers cannot tell that requests come from here.
    pub front_proxy: Option<FrontProxyPem>,
    pub request_header: Option<RequestHeaderConfig>,
    pub bootstrap_tokens: bool,
    pub oidc: Option<OidcConfig>,
    pub token_webhook: Option<TokenWebhook>,
    pub access_webhook: Option<AccessWebhook>,
    pub audit: Option<AuditConfig>,
    pub history: HistoryLimits,
    /// Events that may wait for one watcher before it is cut off.
    pub watch_queue: usize,
    pub bookmark_every_s: u64,
    /// `gitVersion` of `/version`.
    pub git_version: String,
}

impl Default for Config {
    fn default() -> Self {
        const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
        Self {
            service_cidr: (Ipv4Addr::new(10, 96, 0, 0), 16),
            reserved_ips: vec![Ipv4Addr::new(10, 96, 0, 10)],
            node_ports: (30_000, 32_767),
            advertise: None,
            issuer: ISSUER.into(),
            audience: ISSUER.into(),
            token_private_key: String::new(),
            token_public_key: String::new(),
            kubelet: None,
            seats: 600,
            client_ca: String::new(),
            front_proxy: None,
            request_header: None,
            bootstrap_tokens: false,
            oidc: None,
            token_webhook: None,
            access_webhook: None,
            audit: None,
            history: HistoryLimits { age_ms: 5 * 60 * 1000, bytes: 64 << 20 },
            watch_queue: 1_024,
            bookmark_every_s: 60,
            git_version: "v1.35.2+gantry".into(),
        }
    }
}

impl Config {
    /// The address of `kubernetes.default`: the network's first.
    pub fn kubernetes_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.service_cidr.0) + 1)
    }
}
