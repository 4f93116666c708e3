//! The PKI from outside: idempotent, renewed when it must be, and with the modes that the contract names.

use super::*;
use std::os::unix::fs::PermissionsExt;

const NOW_S: i64 = 1_800_000_000;
const DAY_S: i64 = 86_400;

struct Fixture {
    _scratch: tempfile::TempDir,
    pki: Pki,
    names: Names,
    kubeconfig: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        let names = Names {
            node_name: "m1".to_owned(),
            node_ip: "192.0.2.7".parse().unwrap(),
            api_service_ip: "10.96.0.1".parse().unwrap(),
            cluster_domain: "cluster.local".to_owned(),
            extra: vec![],
            api_port: 6443,
        };
        Self { pki: Pki::new(&data), names, kubeconfig: data.kubeconfig(), _scratch: scratch }
    }
    fn ensure(&self, now_s: i64) -> Vec<String> {
        self.pki.ensure_all(&self.names, &self.kubeconfig, now_s).unwrap()
    }
}

#[test]
fn a_second_run_issues_nothing() {
    let fixture = Fixture::new();
    let first = fixture.ensure(NOW_S);
    for name in [
        "ca",
        "store-ca",
        "apiserver",
        "admin",
        "scheduler",
        "node-m1",
        "kubelet-m1",
        "proxy-m1",
        "sa",
        "front-proxy-ca",
        "front-proxy-client",
    ] {
        assert!(first.iter().any(|n| n == name), "{name} is not in {first:?}");
    }
    let before = std::fs::read(&fixture.kubeconfig).unwrap();
    assert_eq!(fixture.ensure(NOW_S + DAY_S), Vec::<String>::new());
    assert_eq!(std::fs::read(&fixture.kubeconfig).unwrap(), before);
}

#[test]
fn leaves_are_renewed_before_they_end_and_authorities_stay() {
    let fixture = Fixture::new();
    fixture.ensure(NOW_S);
    let issued = fixture.ensure(NOW_S + 320 * DAY_S);
    assert!(issued.iter().any(|n| n == "apiserver") && issued.iter().any(|n| n == "admin"), "{issued:?}");
    assert!(!issued.iter().any(|n| n == "ca" || n == "sa"), "{issued:?}");
}

#[test]
fn another_address_renews_what_names_it() {
    let mut fixture = Fixture::new();
    fixture.ensure(NOW_S);
    fixture.names.node_ip = "192.0.2.8".parse().unwrap();
    assert_eq!(fixture.ensure(NOW_S), ["apiserver", "store-peer", "kubelet-m1"]);
}

#[test]
fn the_store_keeps_the_names_that_it_had() {
    let mut fixture = Fixture::new();
    fixture.names.extra = vec!["s1.example.org".to_owned(), "192.0.2.31".to_owned()];
    fixture.ensure(NOW_S);
    fixture.names.extra.clear();
    assert_eq!(fixture.ensure(NOW_S), ["apiserver"]);
    fixture.names.extra = vec!["s2.example.org".to_owned()];
    fixture.ensure(NOW_S);
    let names = certificate::names(&std::fs::read_to_string(fixture.pki.certificate(STORE_PEER)).unwrap());
    for name in ["s1.example.org", "192.0.2.31", "s2.example.org", "192.0.2.7"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}

#[test]
fn a_new_authority_key_renews_everything_it_signed() {
    let fixture = Fixture::new();
    fixture.ensure(NOW_S);
    std::fs::remove_file(fixture.pki.key(CLUSTER_CA)).unwrap();
    let issued = fixture.ensure(NOW_S);
    assert!(issued.iter().any(|n| n == "ca") && issued.iter().any(|n| n == "scheduler"), "{issued:?}");
    assert!(!issued.iter().any(|n| n == "store-peer"), "{issued:?}");
}

#[test]
fn an_unreadable_certificate_is_issued_again() {
    let fixture = Fixture::new();
    fixture.ensure(NOW_S);
    std::fs::write(fixture.pki.certificate(SCHEDULER), "not a certificate").unwrap();
    assert_eq!(fixture.ensure(NOW_S), ["scheduler"]);
}

#[test]
fn keys_and_kubeconfigs_are_for_the_owner_only() {
    let fixture = Fixture::new();
    fixture.ensure(NOW_S);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.kubeconfig), 0o600);
    for entry in std::fs::read_dir(fixture.pki.key("ca").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let expect = match path.extension().and_then(|e| e.to_str()) {
            Some("key" | "kubeconfig") => 0o600,
            _ => 0o644,
        };
        assert_eq!(mode(&path), expect, "{}", path.display());
    }
}

#[test]
fn a_machine_is_added_without_touching_the_others() {
    let fixture = Fixture::new();
    fixture.ensure(NOW_S);
    let issued = fixture.pki.ensure_node("m2", "192.0.2.9".parse().unwrap(), "https://192.0.2.7:6443", NOW_S).unwrap();
    assert_eq!(issued, ["kubelet-m2", "node-m2", "proxy-m2"]);
    let text = std::fs::read_to_string(fixture.pki.kubeconfig("node-m2")).unwrap();
    assert!(text.contains("server: https://192.0.2.7:6443"), "{text}");
}
