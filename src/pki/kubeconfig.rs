//! The text of a kubeconfig with everything embedded, so that one file can be carried away. It never writes it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A kubeconfig for `user` at `server`; the three others are PEM bytes.
pub fn render(server: &str, user: &str, authority: &[u8], certificate: &[u8], key: &[u8]) -> String {
    let (authority, certificate, key) =
        (STANDARD.encode(authority), STANDARD.encode(certificate), STANDARD.encode(key));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: gantry
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: gantry
  context:
    cluster: gantry
    user: {user}
current-context: gantry
"
    )
}
