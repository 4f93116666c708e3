//! A load generator that speaks etcd v3 to a group or to an etcd: so many clients write, or read, one value each after the
//! other for so long. Prints one JSON line: the rate and the latencies. It judges nothing.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use gantry_store::{Op, RangeRequest, RemoteStore, Store, StoreTls, Txn};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: load ENDPOINTS PKI_DIR|insecure put|get CLIENTS VALUE_BYTES SECONDS";
/// Keys that the clients write and read in turn.
const KEYS: u64 = 100_000;
/// Connections to each member, as several API servers would have.
const CONNECTIONS: usize = 8;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoints, pki, what, clients, bytes, seconds] = arguments.as_slice() else { return Err(USAGE.into()) };
    let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
    let tls = if pki == "insecure" { None } else { Some(tls(Path::new(pki))?) };
    let load = Load { write: what == "put", bytes: bytes.parse()?, time: Duration::from_secs(seconds.parse()?) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let line = runtime.block_on(run(&endpoints, tls.as_ref(), clients.parse()?, load))?;
    println!("{line}");
    Ok(())
}

fn tls(pki: &Path) -> Result<StoreTls, Failure> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.join("store-ca.crt"))?)?;
    let certificate = || CertificateDer::from_pem_file(pki.join("store-peer.crt"));
    let key = || PrivateKeyDer::from_pem_file(pki.join("store-peer.key"));
    let client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate()?], key()?)?;
    // Only the client side is used.
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate()?], key()?)?;
    let mut client = client;
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(StoreTls { server: Arc::new(server), client: Arc::new(client) })
}

#[derive(Clone, Copy)]
struct Load {
    write: bool,
    bytes: usize,
    time: Duration,
}

async fn run(endpoints: &[String], tls: Option<&StoreTls>, clients: usize, load: Load) -> Result<String, Failure> {
    // Every connection prefers another member, so that all of them serve.
    let mut stores = Vec::new();
    for number in 0..endpoints.len() * CONNECTIONS {
        let mut order = endpoints.to_vec();
        order.rotate_left(number % endpoints.len());
        stores.push(RemoteStore::new(&order, tls)?);
    }
    let start = Instant::now();
    let all = (0..clients).map(|client| one(stores[client % stores.len()].clone(), client as u64, load, start));
    let mut latencies: Vec<f64> = Vec::new();
    for of_one in futures::future::join_all(all).await {
        latencies.extend(of_one?);
    }
    let took = start.elapsed().as_secs_f64();
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let rate = latencies.len() as f64 / took;
    Ok(format!(
        r#"{{"requests":{},"per_s":{rate:.0},"p50_ms":{:.2},"p99_ms":{:.2}}}"#,
        latencies.len(),
        at(0.5),
        at(0.99)
    ))
}

/// One client's latencies, in milliseconds.
async fn one(store: RemoteStore, client: u64, load: Load, start: Instant) -> Result<Vec<f64>, Failure> {
    let value = bytes::Bytes::from(vec![b'x'; load.bytes]);
    let mut latencies = Vec::new();
    let mut number = client * 7_919;
    while start.elapsed() < load.time {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("load/{:08}", (number >> 33) % KEYS);
        let began = Instant::now();
        if load.write {
            store.txn(Txn { success: vec![Op::put(key, value.clone())], ..Txn::default() }).await?;
        } else {
            store.range(RangeRequest::key(key)).await?;
        }
        latencies.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(latencies)
}
