//! An API server over an in-memory store with a throw-away PKI, for trying clients against it: `cargo run --example serve_memory DIR`.
//! Decides nothing; writes `DIR/kubeconfig` and serves on a free port of 127.0.0.1.

use base64::Engine;
use gantry_apiserver::{ApiServer, Config, Stores, server_config};
use gantry_store::MemStore;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Issued {
    cert: String,
    key: String,
}

fn issue(ca: &CertifiedIssuer<'_, KeyPair>, name: &str, group: Option<&str>) -> Result<Issued, Failure> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cert = params.signed_by(&key, ca)?;
    Ok(Issued { cert: cert.pem(), key: key.serialize_pem() })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).ok_or("usage: serve_memory DIR")?);
    std::fs::create_dir_all(&folder)?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "gantry-test-ca");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let server = issue(&ca, "kube-apiserver", None)?;
    let admin = issue(&ca, "kubernetes-admin", Some("system:masters"))?;
    let account_key = KeyPair::generate()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let config = Config {
        advertise: Some((address.ip(), address.port())),
        token_private_key: account_key.serialize_pem(),
        token_public_key: account_key.public_key_pem(),
        ..Config::default()
    };
    let store = || Arc::new(MemStore::new());
    let api = ApiServer::new(config, Stores { state: store(), leases: store(), events: store() })?;
    let cancel = CancellationToken::new();
    api.start(cancel.clone()).await.map_err(|status| status.to_string())?;

    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters:\n- name: test\n  cluster: {{server: \"https://{address}\", certificate-authority-data: {}}}\nusers:\n- name: admin\n  user: {{client-certificate-data: {}, client-key-data: {}}}\ncontexts:\n- name: test\n  context: {{cluster: test, user: admin}}\n",
        encode(&ca.pem()),
        encode(&admin.cert),
        encode(&admin.key),
    );
    std::fs::write(folder.join("kubeconfig"), kubeconfig)?;
    println!("serving on {address}; export KUBECONFIG={}", folder.join("kubeconfig").display());
    let tls = server_config(&server.cert, &server.key, &ca.pem())?;
    let stop = cancel.clone();
    tokio::spawn(async move {
        // Without a signal handler there is nothing to wait for but the process's end.
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    api.serve(listener, tls, cancel).await;
    Ok(())
}
