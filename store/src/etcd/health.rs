//! Whether a member serves, for probes: gRPC's health protocol, and etcd's `/health` and `/version` over HTTP. It serves while it
//! knows a leader and no alarm stands; whether it is behind, it does not say.

use super::{Face, maintenance};
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_server::Health;
use crate::proto::health::{HealthCheckRequest, HealthCheckResponse};
use futures::{Stream, stream};
use http::StatusCode;
use std::pin::Pin;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Between two looks of whoever watches.
const EVERY: Duration = Duration::from_secs(1);

/// What `/health` was asked to leave out (etcd's words).
fn leaves_out(query: &str, alarm: &str) -> bool {
    query.split('&').any(|word| word.strip_prefix("exclude=").is_some_and(|name| name == alarm))
}

impl Face {
    /// Why it does not serve (etcd's words).
    fn unhealthy(&self, query: &str) -> Option<String> {
        let alarms = self.handle.hub.look(|state| state.alarms().map(|alarm| alarm.kind.name()).collect::<Vec<_>>());
        match alarms.into_iter().find(|alarm| !leaves_out(query, alarm)) {
            Some(alarm) => Some(format!("ALARM {alarm}")),
            None if query.split('&').any(|word| word == "serializable=true") => None,
            None => self.handle.leader().is_none().then(|| "RAFT NO LEADER".to_owned()),
        }
    }

    fn serving(&self) -> HealthCheckResponse {
        let serves = self.handle.leader().is_some();
        let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
        HealthCheckResponse { status: status.into() }
    }

    /// `/health`: whether a probe succeeds, and a JSON text. A linearizable read has to succeed, unless one that may be old will do.
    pub async fn health(&self, query: &str) -> (StatusCode, String) {
        let mut reason = self.unhealthy(query);
        if reason.is_none() && !query.split('&').any(|word| word == "serializable=true") {
            let read = tokio::time::timeout(EVERY * 2, self.store.read_index()).await;
            reason = (!matches!(read, Ok(Ok(_)))).then(|| "QGET ERROR".to_owned());
        }
        let code = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let healthy = reason.is_none();
        (code, format!(r#"{{"health":"{healthy}","reason":"{}"}}"#, reason.unwrap_or_default()))
    }
}

/// `/version`.
pub fn version() -> String {
    let version = maintenance::VERSION;
    let cluster = version.rsplit_once('.').map_or(version, |(cluster, _)| cluster);
    format!(r#"{{"etcdserver":"{version}","etcdcluster":"{cluster}.0"}}"#)
}

#[tonic::async_trait]
impl Health for Face {
    /// Of the whole member, whichever service is named.
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(self.serving()))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let changes = stream::unfold((self.clone(), None), |(face, told)| async move {
            loop {
                let now = face.serving();
                if told != Some(now.status) {
                    return Some((Ok(now), (face, Some(now.status))));
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
