//! The way to one other member. It carries frames and decides nothing.

use super::forward::Batches;
use crate::proto::Frame;
use crate::proto::peer_client::PeerClient;
use futures::Stream;
use futures::stream::BoxStream;
use tonic::transport::Channel;
use tonic::{Response, Status};

pub type Answers = BoxStream<'static, Result<Frame, Status>>;

pub enum Line {
    Wire(PeerClient<Channel>),
    #[cfg(test)]
    Simulated(crate::sim::Line),
}

macro_rules! calls {
    ($($call:ident $kind:ident),*) => {
        $(pub async fn $call(&mut self, frame: Frame) -> Result<Response<Frame>, Status> {
            match self {
                Self::Wire(client) => client.$call(frame).await,
                #[cfg(test)]
                Self::Simulated(line) => line.call(crate::sim::Call::$kind, vec![frame]).await,
            }
        })*
    };
}

impl Line {
    calls!(
        append Append, vote Vote, pre_vote PreVote, transfer_leader TransferLeader, read_index ReadIndex, lease Lease, greet Greet
    );

    pub async fn append_stream(
        &mut self,
        frames: impl Stream<Item = Frame> + Send + Unpin + 'static,
    ) -> Result<Answers, Status> {
        match self {
            Self::Wire(client) => Ok(Box::pin(client.append_stream(frames).await?.into_inner())),
            #[cfg(test)]
            Self::Simulated(line) => line.clone().append_stream(frames).await,
        }
    }

    pub async fn propose_stream(self, frames: Batches) -> Result<Answers, Status> {
        match self {
            Self::Wire(mut client) => Ok(Box::pin(client.propose_stream(frames).await?.into_inner())),
            #[cfg(test)]
            Self::Simulated(line) => line.propose_stream(frames).await,
        }
    }

    pub async fn install(
        &mut self,
        frames: impl Stream<Item = Frame> + Send + Unpin + 'static,
    ) -> Result<Response<Frame>, Status> {
        match self {
            Self::Wire(client) => client.install(frames).await,
            #[cfg(test)]
            Self::Simulated(line) => {
                let frames = futures::StreamExt::collect(frames).await;
                line.call(crate::sim::Call::Install, frames).await
            }
        }
    }
}
