//! The network between members: frames that are late, lost, doubled or overtaken, members that cannot reach each other,
//! and connections to the dead that are refused. Who answers is the real service.

use super::{dice, trace, with};
use crate::peer::PeerService;
use crate::proto::Frame;
use crate::proto::peer_server::Peer;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Append,
    Vote,
    PreVote,
    TransferLeader,
    ReadIndex,
    Lease,
    Greet,
    Install,
}

type Answers = BoxStream<'static, Result<Frame, Status>>;

/// Clones share one network.
#[derive(Clone, Default)]
pub struct Network {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Who answers for a member now, and in which incarnation.
    servers: BTreeMap<u64, (u64, Arc<PeerService>)>,
    /// The current incarnation of each member; messages of others are from the dead.
    alive: BTreeMap<u64, u64>,
    /// Pairs whose first cannot send to their second.
    cut: BTreeSet<(u64, u64)>,
    weather: Weather,
}

/// What happens to a frame on its way, in percent and milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u64,
    pub doubled: u64,
    pub late: u64,
    pub late_ms: u64,
}

impl Network {
    pub fn start(&self, member: u64, incarnation: u64) {
        self.state.lock().alive.insert(member, incarnation);
    }

    pub fn serve(&self, member: u64, incarnation: u64, service: PeerService) {
        self.state.lock().servers.insert(member, (incarnation, Arc::new(service)));
    }

    pub fn stop(&self, member: u64) {
        let mut state = self.state.lock();
        state.alive.remove(&member);
        state.servers.remove(&member);
    }

    pub fn cut(&self, from: u64, to: u64) {
        self.state.lock().cut.insert((from, to));
    }

    pub fn mend(&self) {
        let mut state = self.state.lock();
        state.cut.clear();
        state.weather = Weather::default();
    }

    pub fn weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    fn passes(&self, from: u64, to: u64) -> bool {
        let state = self.state.lock();
        !state.cut.contains(&(from, to)) && !dice::percent(state.weather.lost)
    }

    /// Waits as long as a frame takes.
    async fn travel(&self) {
        let weather = self.state.lock().weather;
        let ms = if dice::percent(weather.late) { dice::below(weather.late_ms + 1) } else { 0 };
        tokio::time::sleep(Duration::from_micros(ms * 1_000 + dice::between(100, 1_000))).await;
    }

    /// Who answers for a member, and which incarnation of it that is.
    fn server(&self, member: u64) -> Option<(u64, Arc<PeerService>)> {
        let state = self.state.lock();
        let server = state.servers.get(&member)?;
        (state.alive.get(&member) == Some(&server.0)).then(|| server.clone())
    }

    fn is_alive(&self, member: u64, incarnation: u64) -> bool {
        self.state.lock().alive.get(&member) == Some(&incarnation)
    }
}

/// The ways from one incarnation of a member to all others.
#[derive(Clone)]
pub struct Lines {
    pub network: Network,
    pub from: u64,
    pub incarnation: u64,
}

impl Lines {
    pub fn line(&self, to: u64) -> Line {
        Line { ways: self.clone(), to }
    }
}

#[derive(Clone)]
pub struct Line {
    ways: Lines,
    to: u64,
}

impl Line {
    pub async fn call(&self, call: Call, frames: Vec<Frame>) -> Result<Response<Frame>, Status> {
        let (network, from, to) = (&self.ways.network, self.ways.from, self.to);
        let bytes: usize = frames.iter().map(|frame| frame.body.len()).sum();
        trace(from << 40 ^ to << 36 ^ (call as u64) << 32 ^ bytes as u64);
        if !network.is_alive(from, self.ways.incarnation) || !network.passes(from, to) {
            return lost().await;
        }
        network.travel().await;
        let Some((incarnation, server)) = network.server(to) else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Err(nobody_there());
        };
        if dice::percent(network.state.lock().weather.doubled) && is_repeatable(call) {
            let (network, server, frames) = (network.clone(), server.clone(), frames.clone());
            tokio::spawn(async move {
                network.travel().await;
                // Nobody waits for the double's answer.
                let _ = answer(&server, call, frames).await;
            });
        }
        // The other side goes on also when this one stops waiting.
        let answered = tokio::spawn(async move { answer(&server, call, frames).await });
        let answered = answered.await.map_err(|error| Status::internal(error.to_string()))?;
        if call == Call::Install && answered.is_ok() {
            with(|context| context.snapshots.installed += 1);
        }
        // The dead say nothing.
        let still = network.is_alive(from, self.ways.incarnation) && network.is_alive(to, incarnation);
        if !still || !network.passes(to, from) {
            return lost().await;
        }
        network.travel().await;
        answered
    }
}

impl Line {
    pub async fn append_stream(
        self,
        frames: impl Stream<Item = Frame> + Send + Unpin + 'static,
    ) -> Result<Answers, Status> {
        self.stream(Box::pin(frames), |server, carried| server.append_frames(carried)).await
    }

    pub fn propose_stream(
        self,
        frames: impl Stream<Item = Frame> + Send + Unpin + 'static,
    ) -> BoxFuture<'static, Result<Answers, Status>> {
        self.stream(Box::pin(frames), |server, carried| server.propose_frames(carried))
    }

    /// Both ways keep the order, as over one connection: what is lost is sent again, and what is cut off waits a while.
    fn stream(
        self,
        frames: BoxStream<'static, Frame>,
        serve: fn(&PeerService, Answers) -> Answers,
    ) -> BoxFuture<'static, Result<Answers, Status>> {
        let Self { ways, to } = self;
        Box::pin(async move {
            let Some((incarnation, server)) = ways.network.server(to) else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                return Err(nobody_there());
            };
            let to = (to, incarnation);
            ways.carry(to, true).await?;
            let there = ways.clone();
            let carried = frames.then(move |frame| {
                let there = there.clone();
                async move { there.carry(to, true).await.map(|()| frame) }
            });
            let answers = serve(&server, Box::pin(carried)).then(move |answer| {
                let back = ways.clone();
                async move {
                    back.carry(to, false).await?;
                    trace(back.from << 40 ^ to.0 << 36 ^ 0xa << 32);
                    answer
                }
            });
            Ok(Box::pin(answers) as Answers)
        })
    }
}

impl Lines {
    /// Brings a frame of a connection over, or back; an error is the connection's end.
    async fn carry(&self, (to, incarnation): (u64, u64), over: bool) -> Result<(), Status> {
        let (from, network) = (self.from, &self.network);
        let (a, b) = if over { (from, to) } else { (to, from) };
        for _ in 0..50 {
            if !network.is_alive(from, self.incarnation) || !network.is_alive(to, incarnation) {
                break;
            }
            if network.passes(a, b) {
                network.travel().await;
                if network.is_alive(from, self.incarnation) && network.is_alive(to, incarnation) {
                    return Ok(());
                }
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // A reset takes a moment, too: who tries again at once must not do so forever at one moment.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(Status::unavailable("the connection broke"))
    }
}

/// Raft's messages may come twice; a client's call over one connection does not.
fn is_repeatable(call: Call) -> bool {
    matches!(call, Call::Append | Call::Vote | Call::PreVote)
}

fn nobody_there() -> Status {
    Status::from_error(Box::new(crate::peer::ConnectFailed::new("a dead member")))
}

/// Nothing comes back, until the connection is given up.
async fn lost() -> Result<Response<Frame>, Status> {
    tokio::time::sleep(Duration::from_secs(15)).await;
    Err(Status::unavailable("the connection broke"))
}

async fn answer(server: &PeerService, call: Call, mut frames: Vec<Frame>) -> Result<Response<Frame>, Status> {
    if call == Call::Install {
        return server.install_frames(futures::stream::iter(frames.into_iter().map(Ok))).await;
    }
    let request = Request::new(frames.pop().ok_or_else(|| Status::invalid_argument("no frame"))?);
    match call {
        Call::Append => server.append(request).await,
        Call::Vote => server.vote(request).await,
        Call::PreVote => server.pre_vote(request).await,
        Call::TransferLeader => server.transfer_leader(request).await,
        Call::ReadIndex => server.read_index(request).await,
        Call::Lease => server.lease(request).await,
        Call::Greet => server.greet(request).await,
        Call::Install => Err(Status::internal("taken care of above")),
    }
}
