//! The public-key infrastructure of one cluster: which authorities and identities exist, and that each is present,
//! valid and signed by the right authority. It never decides what an identity may do.
//!
//! Layout under `pki/`: `NAME.crt` and `NAME.key` per row of the tables below, `NAME.kubeconfig` per client identity,
//! `sa.key` and `sa.pub` for service-account tokens. Keys and kubeconfigs are 0600 in a 0700 folder.

mod certificate;
mod kubeconfig;

pub use certificate::{Authority, Usage, Wanted};

use crate::datadir::{DataDir, make_dir, write_file};
use anyhow::Context;
use certificate::{Judgement, judge};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Signs the API server's and the kubelets' certificates and every client identity.
pub const CLUSTER_CA: &str = "ca";
/// Signs store members only, so that no client identity opens the store.
pub const STORE_CA: &str = "store-ca";
/// Signs nothing but the certificate with which the API server hands requests on to others, in their callers' names.
pub const FRONT_PROXY_CA: &str = "front-proxy-ca";
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";
pub const APISERVER: &str = "apiserver";
pub const KUBELET_CLIENT: &str = "apiserver-kubelet-client";
pub const STORE_PEER: &str = "store-peer";
pub const ADMIN: &str = "admin";
pub const SCHEDULER: &str = "scheduler";
pub const CONTROLLERS: &str = "controllers";

const ADMIN_GROUP: &str = "system:masters";

/// What the certificates have to name.
#[derive(Clone, Debug)]
pub struct Names {
    pub node_name: String,
    pub node_ip: IpAddr,
    /// The first address of the service range: `kubernetes.default`.
    pub api_service_ip: IpAddr,
    pub cluster_domain: String,
    /// More names or addresses under which clients reach the API server.
    pub extra: Vec<String>,
    pub api_port: u16,
}

/// A client identity: certificate subject and the file name it is kept under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub file: String,
    pub user: String,
    pub group: Option<String>,
}

impl Identity {
    fn new(file: impl Into<String>, user: impl Into<String>, group: Option<&str>) -> Self {
        Self { file: file.into(), user: user.into(), group: group.map(str::to_owned) }
    }

    pub fn admin() -> Self {
        Self::new(ADMIN, "kubernetes-admin", Some(ADMIN_GROUP))
    }
    pub fn scheduler() -> Self {
        Self::new(SCHEDULER, "system:kube-scheduler", None)
    }
    pub fn controllers() -> Self {
        Self::new(CONTROLLERS, "system:kube-controller-manager", None)
    }
    pub fn node(name: &str) -> Self {
        Self::new(format!("node-{name}"), format!("system:node:{name}"), Some("system:nodes"))
    }
    pub fn proxy(name: &str) -> Self {
        Self::new(format!("proxy-{name}"), format!("system:node-proxy:{name}"), Some("system:node-proxiers"))
    }

    fn wanted(&self) -> Wanted {
        Wanted { common_name: self.user.clone(), organization: self.group.clone(), sans: vec![], usage: Usage::Client }
    }
}

/// The file stem of a kubelet's serving certificate.
pub fn kubelet_server(node: &str) -> String {
    format!("kubelet-{node}")
}

/// The folder `pki/`.
#[derive(Clone, Debug)]
pub struct Pki {
    dir: PathBuf,
}

impl Pki {
    pub fn new(data: &DataDir) -> Self {
        Self { dir: data.pki() }
    }
    /// A folder that `gantry pki init` made, wherever it is now.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.crt"))
    }
    pub fn key(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.key"))
    }
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.kubeconfig"))
    }
    pub fn service_account_key(&self) -> PathBuf {
        self.dir.join("sa.key")
    }
    pub fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("sa.pub")
    }

    /// Makes everything that one machine with all roles needs; issues again only what is missing, near its end, for
    /// other names, or signed by another authority. Returns the names that were issued.
    pub fn ensure_all(&self, names: &Names, admin_kubeconfig: &Path, now_s: i64) -> anyhow::Result<Vec<String>> {
        make_dir(&self.dir, 0o700)?;
        let mut issued = vec![];
        let cluster = self.ensure_authority(CLUSTER_CA, "gantry-ca", now_s, &mut issued)?;
        let store = self.ensure_authority(STORE_CA, "gantry-store-ca", now_s, &mut issued)?;
        self.ensure(&cluster, APISERVER, &apiserver_certificate(names), now_s, &mut issued)?;
        self.ensure(
            &cluster,
            KUBELET_CLIENT,
            &client_certificate("kube-apiserver-kubelet-client"),
            now_s,
            &mut issued,
        )?;
        let front_proxy = self.ensure_authority(FRONT_PROXY_CA, "gantry-front-proxy-ca", now_s, &mut issued)?;
        let proxy_client = client_certificate(FRONT_PROXY_CLIENT);
        self.ensure(&front_proxy, FRONT_PROXY_CLIENT, &proxy_client, now_s, &mut issued)?;
        let mut peer = store_certificate(names);
        // Members of other machines may serve with it under names that are not told again.
        let before = std::fs::read_to_string(self.certificate(STORE_PEER)).unwrap_or_default();
        peer.sans.extend(
            certificate::names(&before).into_iter().filter(|name| !peer.sans.contains(name)).collect::<Vec<_>>(),
        );
        self.ensure(&store, STORE_PEER, &peer, now_s, &mut issued)?;
        let kubelet = kubelet_certificate(&names.node_name, names.node_ip);
        self.ensure(&cluster, &kubelet_server(&names.node_name), &kubelet, now_s, &mut issued)?;
        let server = format!("https://127.0.0.1:{}", names.api_port);
        for identity in [
            Identity::scheduler(),
            Identity::controllers(),
            Identity::node(&names.node_name),
            Identity::proxy(&names.node_name),
        ] {
            self.ensure(&cluster, &identity.file, &identity.wanted(), now_s, &mut issued)?;
            self.write_kubeconfig(&identity, &server, &self.kubeconfig(&identity.file))?;
        }
        let admin = Identity::admin();
        self.ensure(&cluster, &admin.file, &admin.wanted(), now_s, &mut issued)?;
        self.write_kubeconfig(&admin, &server, admin_kubeconfig)?;
        self.ensure_service_account_key(&mut issued)?;
        Ok(issued)
    }

    /// Issues the certificates of one more machine and writes its two kubeconfigs for an API server at `server`.
    pub fn ensure_node(&self, node: &str, ip: IpAddr, server: &str, now_s: i64) -> anyhow::Result<Vec<String>> {
        let mut issued = vec![];
        let cluster = self.ensure_authority(CLUSTER_CA, "gantry-ca", now_s, &mut issued)?;
        self.ensure(&cluster, &kubelet_server(node), &kubelet_certificate(node, ip), now_s, &mut issued)?;
        for identity in [Identity::node(node), Identity::proxy(node)] {
            self.ensure(&cluster, &identity.file, &identity.wanted(), now_s, &mut issued)?;
            self.write_kubeconfig(&identity, server, &self.kubeconfig(&identity.file))?;
        }
        Ok(issued)
    }

    /// Issues a client certificate for any subject and writes its kubeconfig to `path`.
    pub fn issue_client(&self, identity: &Identity, server: &str, path: &Path, now_s: i64) -> anyhow::Result<()> {
        let mut issued = vec![];
        let cluster = self.ensure_authority(CLUSTER_CA, "gantry-ca", now_s, &mut issued)?;
        self.ensure(&cluster, &identity.file, &identity.wanted(), now_s, &mut issued)?;
        self.write_kubeconfig(identity, server, path)
    }

    fn ensure_authority(
        &self,
        name: &str,
        common_name: &str,
        now_s: i64,
        issued: &mut Vec<String>,
    ) -> anyhow::Result<Authority> {
        let key = self.ensure_key(&self.key(name))?;
        let path = self.certificate(name);
        if let Ok(pem) = std::fs::read_to_string(&path)
            && certificate::authority_holds(&pem, &key, now_s)
        {
            return Authority::new(pem, key).with_context(|| format!("reading {}", path.display()));
        }
        let pem = certificate::issue_authority(common_name, &key, now_s)?;
        write_file(&path, pem.as_bytes(), 0o644)?;
        issued.push(name.to_owned());
        Authority::new(pem, key)
    }

    fn ensure(
        &self,
        authority: &Authority,
        name: &str,
        wanted: &Wanted,
        now_s: i64,
        issued: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let key = self.ensure_key(&self.key(name))?;
        let path = self.certificate(name);
        if let Ok(pem) = std::fs::read_to_string(&path)
            && judge(&pem, &key, authority, wanted, now_s) == Judgement::Good
        {
            return Ok(());
        }
        let pem = authority.issue(wanted, &key, now_s).with_context(|| format!("issuing the certificate of {name}"))?;
        write_file(&path, pem.as_bytes(), 0o644)?;
        issued.push(name.to_owned());
        Ok(())
    }

    fn ensure_key(&self, path: &Path) -> anyhow::Result<rcgen::KeyPair> {
        if let Ok(pem) = std::fs::read_to_string(path)
            && let Ok(key) = rcgen::KeyPair::from_pem(&pem)
        {
            return Ok(key);
        }
        let key = rcgen::KeyPair::generate().context("generating a key")?;
        write_file(path, key.serialize_pem().as_bytes(), 0o600)?;
        Ok(key)
    }

    fn ensure_service_account_key(&self, issued: &mut Vec<String>) -> anyhow::Result<()> {
        let existed = self.service_account_key().exists();
        let key = self.ensure_key(&self.service_account_key())?;
        let public = key.public_key_pem();
        if std::fs::read_to_string(self.service_account_public_key()).ok().as_deref() != Some(public.as_str()) {
            write_file(&self.service_account_public_key(), public.as_bytes(), 0o644)?;
        }
        if !existed {
            issued.push("sa".to_owned());
        }
        Ok(())
    }

    fn write_kubeconfig(&self, identity: &Identity, server: &str, path: &Path) -> anyhow::Result<()> {
        let read = |path: PathBuf| std::fs::read(&path).with_context(|| format!("reading {}", path.display()));
        let text = kubeconfig::render(
            server,
            &identity.user,
            &read(self.certificate(CLUSTER_CA))?,
            &read(self.certificate(&identity.file))?,
            &read(self.key(&identity.file))?,
        );
        if std::fs::read_to_string(path).ok().as_deref() != Some(text.as_str()) {
            write_file(path, text.as_bytes(), 0o600)?;
        }
        Ok(())
    }
}

fn apiserver_certificate(names: &Names) -> Wanted {
    let mut sans: Vec<String> =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned).into();
    sans.push(format!("kubernetes.default.svc.{}", names.cluster_domain));
    sans.push("localhost".to_owned());
    sans.push(names.node_name.clone());
    sans.push("127.0.0.1".to_owned());
    sans.push(names.api_service_ip.to_string());
    sans.push(names.node_ip.to_string());
    sans.extend(names.extra.iter().cloned());
    Wanted { common_name: "kube-apiserver".to_owned(), organization: None, sans, usage: Usage::Server }
}

fn client_certificate(name: &str) -> Wanted {
    Wanted { common_name: name.to_owned(), organization: None, sans: vec![], usage: Usage::Client }
}

fn kubelet_certificate(node: &str, ip: IpAddr) -> Wanted {
    Wanted {
        common_name: format!("system:node:{node}"),
        organization: Some("system:nodes".to_owned()),
        sans: vec![node.to_owned(), ip.to_string(), "127.0.0.1".to_owned()],
        usage: Usage::Server,
    }
}

fn store_certificate(names: &Names) -> Wanted {
    let mut sans = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), names.node_ip.to_string()];
    sans.push(names.node_name.clone());
    sans.extend(names.extra.iter().cloned());
    Wanted { common_name: "gantry-store".to_owned(), organization: None, sans, usage: Usage::Both }
}

#[cfg(test)]
mod tests;
