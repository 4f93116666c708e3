//! Reads a kubeconfig: where the server is, what it is known by, and as whom to speak. It opens no connection.

use anyhow::{Context, bail};
use base64::Engine;
use serde::Deserialize;
use std::path::Path;

/// The current context, with all files read.
#[derive(Clone, Debug)]
pub struct Access {
    /// `https://HOST:PORT`, without a slash at its end.
    pub server: String,
    /// PEM; without one the server is not verified, which has to be asked for.
    pub authority: Option<Vec<u8>>,
    pub insecure: bool,
    /// A certificate and its key, both PEM.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    clusters: Vec<Named<Cluster>>,
    #[serde(default)]
    users: Vec<Named<User>>,
    #[serde(default)]
    contexts: Vec<Named<Context_>>,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    what: T,
}

#[derive(Deserialize)]
struct Context_ {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(alias = "tokenFile")]
    token_file: Option<String>,
    exec: Option<serde_json::Value>,
    username: Option<String>,
}

/// Reads the file's current context, or the named one.
pub fn read(file: &Path, context: Option<&str>) -> anyhow::Result<Access> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    access(&text, folder, context).with_context(|| format!("the kubeconfig {}", file.display()))
}

fn access(text: &str, folder: &Path, context: Option<&str>) -> anyhow::Result<Access> {
    let file: File = serde_saphyr::from_str(text)?;
    let name = context.unwrap_or(&file.current_context);
    let context = find(&file.contexts, name).with_context(|| format!("it has no context {name:?}"))?;
    let cluster =
        find(&file.clusters, &context.cluster).with_context(|| format!("it has no cluster {:?}", context.cluster))?;
    let user = find(&file.users, &context.user).with_context(|| format!("it has no user {:?}", context.user))?;
    if user.exec.is_some() || user.username.is_some() {
        bail!("only certificates and tokens are supported: make a token with `kubectl create token`");
    }
    let content = |data: &Option<String>, path: &Option<String>| -> anyhow::Result<Option<Vec<u8>>> {
        match (data, path) {
            (Some(data), _) => {
                let data: String = data.split_whitespace().collect();
                Ok(Some(base64::engine::general_purpose::STANDARD.decode(data)?))
            }
            (None, Some(path)) => {
                let path = folder.join(path);
                Ok(Some(std::fs::read(&path).with_context(|| path.display().to_string())?))
            }
            (None, None) => Ok(None),
        }
    };
    let certificate = content(&user.client_certificate_data, &user.client_certificate)?;
    let key = content(&user.client_key_data, &user.client_key)?;
    let token = match (&user.token, &user.token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(_)) => {
            content(&None, &user.token_file)?.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
        }
        (None, None) => None,
    };
    Ok(Access {
        server: cluster.server.trim_end_matches('/').to_owned(),
        authority: content(&cluster.certificate_authority_data, &cluster.certificate_authority)?,
        insecure: cluster.insecure_skip_tls_verify,
        certificate: certificate.zip(key),
        token,
    })
}

fn find<'a, T>(all: &'a [Named<T>], name: &str) -> Option<&'a T> {
    all.iter().find(|named| named.name == name).map(|named| &named.what)
}

#[cfg(test)]
mod tests {
    use super::access;
    use std::path::Path;

    const HEAD: &str = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}, {name: d, context: {cluster: k, user: t}}]\n\
        clusters: [{name: k, cluster: {server: 'https://h:1/', certificate-authority-data: Y2E=}}]\n";

    #[test]
    fn the_context_names_the_server_and_the_user() {
        let users = "users: [{name: u, user: {client-certificate-data: Yw==, client-key-data: aw==}}, {name: t, user: {token: x}}]\n";
        let text = format!("{HEAD}{users}");
        let own = access(&text, Path::new("."), None).unwrap();
        assert_eq!((own.server.as_str(), own.authority.as_deref()), ("https://h:1", Some(&b"ca"[..])));
        assert_eq!((own.certificate, own.token), (Some((b"c".to_vec(), b"k".to_vec())), None));
        let other = access(&text, Path::new("."), Some("d")).unwrap();
        assert_eq!((other.certificate, other.token.as_deref()), (None, Some("x")));
        let wrong = |text: &str, context| access(text, Path::new("."), context).unwrap_err().to_string();
        assert_eq!(wrong(&text, Some("e")), "it has no context \"e\"");
        assert_eq!(wrong(HEAD, None), "it has no user \"u\"");
        assert!(
            wrong(&format!("{HEAD}users: [{{name: u, user: {{exec: {{}}}}}}]"), None).contains("kubectl create token")
        );
    }
}
