//! The verbs of the API over a `kube::Client`, which may be a TLS connection or the API server in this process.
//! Never retries and never caches: the loop that asks knows what a failure means.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gantry_apimachinery::kinds::Kind;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{ApiError, TransportError};
use crate::links::Links;
use crate::options::{DeleteOptions, List, ListOptions, Patch};
use crate::query::Query;
use crate::response::{self, RawList};

/// The server gives up on a request after 60 s; past that nothing will come.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// Whole objects.
pub(crate) const JSON: &str = "application/json";

/// A cheap handle on the API. All clones share the connections underneath.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    user_agent: header::HeaderValue,
}

impl Client {
    pub fn new(kube: kube::Client) -> Self {
        Client { kube, user_agent: header::HeaderValue::from_static("gantry") }
    }

    /// Reads a kubeconfig's current context.
    pub async fn from_kubeconfig(path: impl AsRef<Path>) -> Result<Self, ApiError> {
        let config = read_kubeconfig(path.as_ref()).await?;
        Ok(Client::new(kube::Client::try_from(config).map_err(|e| TransportError::Setup(e.into()))?))
    }

    /// The same over so many HTTP/2 connections, however much is asked for at once. For client certificates only.
    pub async fn over_links(path: impl AsRef<Path>, connections: usize) -> Result<Self, ApiError> {
        let config = read_kubeconfig(path.as_ref()).await?;
        let namespace = config.default_namespace.clone();
        Ok(Client::new(kube::Client::new(Links::new(&config, connections)?, namespace)))
    }

    /// Names the program in `User-Agent`, from which the server takes the default field manager.
    #[must_use]
    pub fn with_user_agent(mut self, name: &str) -> Self {
        if let Ok(value) = header::HeaderValue::from_str(name) {
            self.user_agent = value;
        }
        self
    }

    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// `ns` is empty for kinds without a namespace, here and below.
    pub async fn get<T: DeserializeOwned>(&self, kind: &Kind, ns: &str, name: &str) -> Result<T, ApiError> {
        self.get_path(&kind.path(ns, name)).await
    }

    /// With an empty `ns`: in all namespaces.
    pub async fn list<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        ns: &str,
        opts: &ListOptions,
    ) -> Result<List<T>, ApiError> {
        let path = format!("{}{}", kind.path(ns, ""), opts.query().as_str());
        RawList::new(self.exchange_as(Method::GET, &path, None, JSON).await?).strict()
    }

    pub async fn create<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        ns: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ApiError> {
        self.post(&kind.path(ns, ""), body).await
    }

    /// Replaces the object; the body's resourceVersion, if any, must be the current one.
    pub async fn update<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        ns: &str,
        name: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ApiError> {
        self.put(&kind.path(ns, name), body).await
    }

    pub async fn update_status<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        ns: &str,
        name: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ApiError> {
        self.put(&format!("{}/status", kind.path(ns, name)), body).await
    }

    pub async fn patch<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        ns: &str,
        name: &str,
        patch: Patch,
        subresource: Option<&str>,
    ) -> Result<T, ApiError> {
        let mut query = Query::default();
        if let Patch::Apply { manager, force, .. } = &patch {
            query.push("fieldManager", manager).push("force", if *force { "true" } else { "false" });
        }
        let mut path = kind.path(ns, name);
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        path.push_str(query.as_str());
        let body = encode(patch.body())?;
        response::decode(&self.exchange(Method::PATCH, &path, Some((patch.content_type(), body))).await?)
    }

    /// Also succeeds when the object only began to go (finalizers, grace period).
    pub async fn delete(&self, kind: &Kind, ns: &str, name: &str, options: &DeleteOptions) -> Result<(), ApiError> {
        let body = encode(&options.body())?;
        self.exchange(Method::DELETE, &kind.path(ns, name), Some(("application/json", body))).await.map(drop)
    }

    /// Posts to a path: subresources, bulk bindings, token requests.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &(impl Serialize + ?Sized)) -> Result<T, ApiError> {
        let body = encode(body)?;
        response::decode(&self.exchange(Method::POST, path, Some(("application/json", body))).await?)
    }

    /// Puts to a path, for subresources other than status.
    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &(impl Serialize + ?Sized)) -> Result<T, ApiError> {
        let body = encode(body)?;
        response::decode(&self.exchange(Method::PUT, path, Some(("application/json", body))).await?)
    }

    /// Gets any path that answers JSON.
    pub async fn get_path<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        response::decode(&self.get_bytes(path).await?)
    }

    /// One request of any kind: what the server warns of, and its answer as it is. Outside 2xx the answer is the error.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
        accept: &'static str,
    ) -> Result<(Vec<String>, Bytes), ApiError> {
        let work = async {
            let answer = self.send_as(method, path, body, accept).await?;
            let warnings = answer.headers().get_all(header::WARNING).iter();
            let warnings = warnings.filter_map(|value| value.to_str().ok()).map(warning).collect();
            Ok((warnings, collect(answer).await?))
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::TimedOut(REQUEST_TIMEOUT).into()),
        }
    }

    /// Gets any path, as it is.
    pub async fn get_bytes(&self, path: &str) -> Result<Bytes, ApiError> {
        self.exchange(Method::GET, path, None).await
    }

    /// One request and its whole answer.
    async fn exchange(&self, method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> Result<Bytes, ApiError> {
        self.exchange_as(method, path, body, JSON).await
    }

    async fn exchange_as(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
        accept: &'static str,
    ) -> Result<Bytes, ApiError> {
        let work = async {
            let answer = self.send_as(method, path, body, accept).await?;
            collect(answer).await
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::TimedOut(REQUEST_TIMEOUT).into()),
        }
    }

    /// One request and the head of its answer; outside 2xx the answer is read and becomes the error.
    pub(crate) async fn send_as(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
        accept: &'static str,
    ) -> Result<Response<Body>, ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, &self.user_agent)
            .header(header::ACCEPT, accept);
        if let Some((content_type, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *content_type);
        }
        let request =
            request.body(Body::from(body.map(|(_, b)| b).unwrap_or_default())).map_err(TransportError::Request)?;
        let answer = self.kube.send(request).await.map_err(|e| TransportError::Send(Box::new(e)))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (code, headers) = (answer.status(), answer.headers().clone());
        let body = collect(answer).await?;
        Err(response::failure(code, &headers, &body))
    }
}

async fn read_kubeconfig(path: &Path) -> Result<kube::Config, ApiError> {
    let setup = |error: Box<dyn std::error::Error + Send + Sync>| TransportError::Setup(error);
    let kubeconfig = Kubeconfig::read_from(path).map_err(|e| setup(e.into()))?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| setup(e.into()))?;
    config.default_retry = false;
    Ok(config)
}

/// The text of a header `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, rest)| rest.strip_suffix('"').unwrap_or(rest));
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

async fn collect(answer: Response<Body>) -> Result<Bytes, ApiError> {
    let body = answer.into_body().collect().await.map_err(|e| TransportError::Body(Box::new(e)))?;
    Ok(body.to_bytes())
}

fn encode(body: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(body).map_err(ApiError::Encode)
}
