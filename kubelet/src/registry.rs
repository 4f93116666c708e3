//! Credentials for pulling images, from Secrets of type `kubernetes.io/dockerconfigjson` and `dockercfg`. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use serde::Deserialize;

use crate::api::objects::Secret;
use crate::build::env::secret_bytes;
use crate::runtime::v1;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
}

/// `registry.example:5000` of `registry.example:5000/a/b:c`; Docker's own when the first part is no host.
fn host(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

fn bare(server: &str) -> &str {
    let server = server.trim_start_matches("https://").trim_start_matches("http://");
    match server.split('/').next().unwrap_or_default() {
        "index.docker.io" => "docker.io",
        other => other,
    }
}

/// What a Secret offers for an image's registry.
pub fn credentials(secret: &Secret, image: &str) -> Vec<v1::AuthConfig> {
    let auths = match secret_bytes(secret, ".dockerconfigjson") {
        Some(bytes) => serde_json::from_slice::<DockerConfig>(&bytes).unwrap_or_default().auths,
        None => {
            let bytes = secret_bytes(secret, ".dockercfg").unwrap_or_default();
            serde_json::from_slice(&bytes).unwrap_or_default()
        }
    };
    let fitting = auths.into_iter().filter(|(server, _)| bare(server) == host(image));
    fitting
        .map(|(server_address, e)| {
            let decoded = base64::engine::general_purpose::STANDARD.decode(&e.auth).unwrap_or_default();
            let decoded = String::from_utf8(decoded).unwrap_or_default();
            let (user, password) = decoded.split_once(':').unwrap_or((&e.username, &e.password));
            v1::AuthConfig {
                username: user.to_owned(),
                password: password.to_owned(),
                server_address,
                identity_token: e.identitytoken,
                ..Default::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_image_s_own_registry_gets_the_password() {
        let json = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"bWU6cHc="},"r.example:5000":{"username":"u","password":"p"}}}"#;
        let data = base64::engine::general_purpose::STANDARD.encode(json);
        let secret = Secret { data: [(".dockerconfigjson".to_owned(), data)].into(), ..Secret::default() };
        let check = |image: &str, expect: &[(&str, &str)]| {
            let got: Vec<_> = credentials(&secret, image).into_iter().map(|a| (a.username, a.password)).collect();
            assert_eq!(
                got,
                expect.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>(),
                "{image}"
            );
        };
        check("nginx", &[("me", "pw")]);
        check("docker.io/library/nginx", &[("me", "pw")]);
        check("r.example:5000/a/b:1", &[("u", "p")]);
        check("other.example/a", &[]);
    }
}
