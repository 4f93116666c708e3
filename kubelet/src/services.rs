//! The Service variables of a container's environment (`DB_SERVICE_HOST` …), from this machine's discovery copy.

use std::collections::BTreeMap;
use std::path::Path;

use gantry_apimachinery::meta::ObjectMeta;
use serde::Deserialize;

use crate::api::Pod;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Copy {
    version: u32,
    services: Vec<Service>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Service {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    ports: Vec<Port>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Port {
    name: String,
    protocol: String,
    port: u16,
}

/// Empty when there is no copy yet: a start never waits for it.
pub fn environment(pod: &Pod, copy: Option<&Path>) -> BTreeMap<String, String> {
    let read = copy.and_then(|path| std::fs::read(path).ok());
    let copy: Copy = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    if copy.version != 1 {
        return BTreeMap::new();
    }
    variables(pod, &copy.services)
}

/// Services of the pod's namespace, and always the API's own.
fn variables(pod: &Pod, services: &[Service]) -> BTreeMap<String, String> {
    let links = pod.spec.enable_service_links != Some(false);
    let mut out = BTreeMap::new();
    for s in services {
        let (ns, name) = (s.metadata.namespace.as_str(), s.metadata.name.as_str());
        let is_api = (ns, name) == ("default", "kubernetes");
        let ip = s.spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None");
        let (Some(ip), Some(first)) = (ip, s.spec.ports.first()) else { continue };
        if !(is_api || links && ns == pod.metadata.namespace) {
            continue;
        }
        let upper = |text: &str| text.to_ascii_uppercase().replace('-', "_");
        let prefix = upper(name);
        let mut set = |key: String, value: String| out.insert(key, value);
        set(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
        set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
        for (i, p) in s.spec.ports.iter().enumerate() {
            if !p.name.is_empty() {
                set(format!("{prefix}_SERVICE_PORT_{}", upper(&p.name)), p.port.to_string());
            }
            let protocol = if p.protocol.is_empty() { "TCP" } else { &p.protocol };
            let url = format!("{}://{ip}:{}", protocol.to_ascii_lowercase(), p.port);
            let port = format!("{prefix}_PORT_{}_{protocol}", p.port);
            if i == 0 {
                set(format!("{prefix}_PORT"), url.clone());
            }
            set(port.clone(), url);
            set(format!("{port}_PROTO"), protocol.to_ascii_lowercase());
            set(format!("{port}_PORT"), p.port.to_string());
            set(format!("{port}_ADDR"), ip.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn own_services_and_the_api_have_variables() {
        let services: Vec<Service> = serde_json::from_value(json!([
            {"metadata": {"name": "my-db", "namespace": "ns"}, "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "sql", "port": 5432}]}},
            {"metadata": {"name": "other", "namespace": "else"}, "spec": {"clusterIP": "10.96.0.8", "ports": [{"port": 1}]}},
            {"metadata": {"name": "headless", "namespace": "ns"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
            {"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}},
        ]))
        .unwrap();
        let names = |links: serde_json::Value| {
            let pod: Pod =
                serde_json::from_value(json!({"metadata": {"namespace": "ns"}, "spec": {"enableServiceLinks": links}}))
                    .unwrap();
            variables(&pod, &services)
        };
        let vars = names(json!(null));
        assert_eq!(vars["MY_DB_SERVICE_HOST"], "10.96.0.7");
        assert_eq!(vars["MY_DB_SERVICE_PORT_SQL"], "5432");
        assert_eq!(vars["MY_DB_PORT_5432_TCP"], "tcp://10.96.0.7:5432");
        assert_eq!(vars["KUBERNETES_PORT_443_TCP_ADDR"], "10.96.0.1");
        assert!(!vars.keys().any(|k| k.starts_with("OTHER") || k.starts_with("HEADLESS")));
        assert!(names(json!(false)).keys().all(|k| k.starts_with("KUBERNETES")));
    }
}
