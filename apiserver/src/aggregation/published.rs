//! What other servers need to recognise us and our clients: the ConfigMap `kube-system/extension-apiserver-authentication`. Decides its
//! content; several servers with authorities of their own stand in it together.

use crate::bootstrap::OwnWrites;
use crate::config::Config;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use crate::rest::update::update;
use gantry_apimachinery::kinds::CONFIG_MAP;
use serde_json::{Value, json};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";
const END: &str = "-----END CERTIFICATE-----";
/// The common name of the certificate with which we come.
const PROXY_NAME: &str = "front-proxy-client";

/// Makes it, or puts it right.
pub async fn publish(own: &OwnWrites<'_>) -> Outcome<()> {
    let ours = data(&own.core.config);
    if ours.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(());
    }
    let object = json!({"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": ours});
    own.ensure(&CONFIG_MAP, NAMESPACE, NAME, object).await?;
    let wanted = |old: &Value| {
        let mut new = old.clone();
        new["data"] = joined(&old["data"], &ours);
        Ok(new)
    };
    update(&own.call(&CONFIG_MAP, NAMESPACE, NAME), &wanted).await.map(drop)
}

fn data(config: &Config) -> Value {
    let mut data = json!({});
    if !config.client_ca.is_empty() {
        data[CLIENT_CA] = config.client_ca.as_str().into();
    }
    if let Some(proxy) = &config.front_proxy {
        let list = |text: &str| Value::from(json!([text]).to_string());
        data[PROXY_CA] = proxy.ca.as_str().into();
        data["requestheader-allowed-names"] = list(PROXY_NAME);
        data["requestheader-username-headers"] = list("X-Remote-User");
        data["requestheader-uid-headers"] = list("X-Remote-Uid");
        data["requestheader-group-headers"] = list("X-Remote-Group");
        data["requestheader-extra-headers-prefix"] = list("X-Remote-Extra-");
    }
    data
}

/// Ours, with the authorities that are there already.
fn joined(there: &Value, ours: &Value) -> Value {
    let mut all = if there.is_object() { there.clone() } else { json!({}) };
    for (key, value) in ours.as_object().into_iter().flatten() {
        all[key] = match key.as_str() {
            CLIENT_CA | PROXY_CA => bundle(str_at(there, key), value.as_str().unwrap_or("")).into(),
            _ => value.clone(),
        };
    }
    all
}

/// The certificates of both, each once.
fn bundle(there: &str, ours: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in [there, ours] {
        for certificate in text.split_inclusive(END).map(str::trim).filter(|part| part.ends_with(END)) {
            if !all.iter().any(|other| other == certificate) {
                all.push(certificate.to_owned());
            }
        }
    }
    all.iter().map(|certificate| format!("{certificate}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_of_several_servers_stand_together() {
        let certificate = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n{END}\n");
        let (a, b) = (certificate("a"), certificate("b"));
        assert_eq!(bundle("", &a), a);
        assert_eq!(bundle(&a, &a), a);
        assert_eq!(bundle(&a, &b), format!("{a}{b}"));
        assert_eq!(bundle(&format!("{a}{b}"), &b), format!("{a}{b}"));
        let there = json!({CLIENT_CA: a, "requestheader-allowed-names": "[\"old\"]", "more": "kept"});
        let ours = json!({CLIENT_CA: b, "requestheader-allowed-names": "[\"new\"]"});
        let expect = json!({CLIENT_CA: format!("{a}{b}"), "requestheader-allowed-names": "[\"new\"]", "more": "kept"});
        assert_eq!(joined(&there, &ours), expect);
    }
}
