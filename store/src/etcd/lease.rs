//! The Lease service. Grants and revocations are log entries; what time is left is asked of the leader.

use super::Face;
use super::errors::{NO_LEADER, TTL_TOO_LARGE, plain, status};
use crate::api::{LeaseId, StoreError};
use crate::mvcc::Command;
use crate::proto::etcd::{self, lease_server::Lease};
use futures::{FutureExt, Stream, StreamExt, stream};
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;
type KeptAlive = Pin<Box<dyn Stream<Item = Result<etcd::LeaseKeepAliveResponse, Status>> + Send>>;

/// Seconds; etcd's bounds. The least is above the time that a new leader takes to be found.
const LEAST_TTL_S: i64 = 2;
const MOST_TTL_S: i64 = 9_000_000_000;

/// A number that nobody else has, most likely; it is never 0 and never negative.
fn random_id() -> LeaseId {
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    LeaseId((random >> 1).max(1).cast_signed())
}

#[tonic::async_trait]
impl Lease for Face {
    async fn lease_grant(&self, request: Request<etcd::LeaseGrantRequest>) -> Answer<etcd::LeaseGrantResponse> {
        let request = request.into_inner();
        if request.ttl > MOST_TTL_S {
            return Err(plain(TTL_TOO_LARGE));
        }
        let id = if request.id == 0 { random_id() } else { LeaseId(request.id) };
        let ttl_s = request.ttl.max(LEAST_TTL_S);
        let revision = self.store.command(Command::Grant { id, ttl_s }).await.map_err(status)?;
        let header = self.header(revision);
        Ok(Response::new(etcd::LeaseGrantResponse { header, id: id.0, ttl: ttl_s, error: String::new() }))
    }

    async fn lease_revoke(&self, request: Request<etcd::LeaseRevokeRequest>) -> Answer<etcd::LeaseRevokeResponse> {
        let id = LeaseId(request.into_inner().id);
        let revision = self.store.command(Command::Revoke { id }).await.map_err(status)?;
        Ok(Response::new(etcd::LeaseRevokeResponse { header: self.header(revision) }))
    }

    type LeaseKeepAliveStream = KeptAlive;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<etcd::LeaseKeepAliveRequest>>,
    ) -> Answer<Self::LeaseKeepAliveStream> {
        let leaderless = self.leaderless(self.check_leader(request.metadata().as_ref())?);
        let face = self.clone();
        let answers = request.into_inner().then(move |request| {
            let face = face.clone();
            async move {
                let id = request?.id;
                // A lease that is gone has no time left: that is an answer, not an error (etcd's rule).
                let ttl = match face.handle.lease(LeaseId(id), true).await {
                    Ok(standing) => standing.left_s,
                    Err(StoreError::NoLease(_)) => 0,
                    Err(error) => return Err(status(error)),
                };
                Ok(etcd::LeaseKeepAliveResponse { header: face.header_now(), id, ttl })
            }
        });
        let no_leader = leaderless.map(|()| Err(plain(NO_LEADER)));
        // Either ends the stream: the client, or that nobody leads.
        let answers = answers.map(Some).chain(stream::once(std::future::ready(None)));
        let merged = stream::select(answers, no_leader.into_stream().map(Some));
        let ended = merged.scan(false, |over, answer| {
            let next = if *over { None } else { answer };
            *over = matches!(next, None | Some(Err(_)));
            std::future::ready(next)
        });
        Ok(Response::new(Box::pin(ended)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<etcd::LeaseTimeToLiveRequest>,
    ) -> Answer<etcd::LeaseTimeToLiveResponse> {
        let etcd::LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let header = self.header_now();
        let standing = match self.handle.lease(LeaseId(id), false).await {
            Ok(standing) => standing,
            Err(StoreError::NoLease(_)) => {
                let gone = etcd::LeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: vec![] };
                return Ok(Response::new(gone));
            }
            Err(error) => return Err(status(error)),
        };
        let view = self.handle.hub.view();
        let attached =
            view.lease(LeaseId(id)).filter(|_| keys).into_iter().flat_map(|lease| lease.keys.iter().cloned());
        let (ttl, granted_ttl) = (standing.left_s, standing.ttl_s);
        Ok(Response::new(etcd::LeaseTimeToLiveResponse { header, id, ttl, granted_ttl, keys: attached.collect() }))
    }

    async fn lease_leases(&self, _: Request<etcd::LeaseLeasesRequest>) -> Answer<etcd::LeaseLeasesResponse> {
        let revision = self.store.read_index().await.map_err(status)?;
        let view = self.handle.hub.view();
        let leases = view.leases().map(|(id, _)| etcd::LeaseStatus { id: id.0 }).collect();
        Ok(Response::new(etcd::LeaseLeasesResponse { header: self.header(revision), leases }))
    }
}
