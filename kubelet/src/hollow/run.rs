//! The edge of a hollow fleet: informers and answers become events, effects become tasks, and the clock is read here. It decides
//! nothing about machines and pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Object, Uid};
use gantry_client::{Change, EventRecorder, EventType, Informer, InformerOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fleet::{Effect, Event, Figures, Fleet};
use super::projection::{HollowPod, SeenNode};
use super::writes::Writer;
use super::{HollowClients, HollowConfig};
use crate::agent::{about, now};
use crate::pod::Level;

/// Answers and changes that wait for the loop; who brings more waits.
const QUEUE: usize = 8_192;
/// Taken at once.
const TOGETHER: usize = 512;
/// Changes of a whole fleet's pods or Nodes that may wait for the loop before everything is read again.
const FAN_OUT: usize = 1 << 16;
/// The same for the few pods of one machine.
const OWN_FAN_OUT: usize = 16;
/// What comes due within so long is done together.
const TURN: Duration = Duration::from_millis(10);
/// Events are told by so many writers; one writes a batch after the other.
const TELLERS: usize = 4;

type Out = mpsc::Sender<Event>;

struct Edge {
    config: HollowConfig,
    clients: HollowClients,
    fleet: Fleet,
    writer: Arc<Writer>,
    tellers: Vec<EventRecorder>,
    out: Out,
    /// Machines whose pods are watched, where each has a watch of its own.
    watched: BTreeSet<u32>,
    cancel: CancellationToken,
}

pub async fn run(
    config: HollowConfig,
    clients: HollowClients,
    mut paused: watch::Receiver<bool>,
    cancel: CancellationToken,
) {
    let stop = cancel.child_token();
    let (out, mut inbox) = mpsc::channel(QUEUE);
    let mut edge = Edge::new(config, clients, out, stop.clone());
    edge.watch();
    edge.handle(Event::Pause(*paused.borrow_and_update()));
    let every = Duration::from_secs(edge.config.report_every_s.max(1));
    let mut report = tokio::time::interval_at(Instant::now() + every, every);
    let (mut told, mut events) = (Figures::default(), Vec::with_capacity(TOGETHER));
    let mut pausable = true;
    loop {
        let wait = edge.wait();
        tokio::select! {
            () = cancel.cancelled() => break,
            _ = inbox.recv_many(&mut events, TOGETHER) => events.drain(..).for_each(|event| edge.handle(event)),
            changed = paused.changed(), if pausable => match changed {
                Ok(()) => edge.handle(Event::Pause(*paused.borrow_and_update())),
                Err(_) => pausable = false,
            },
            _ = report.tick(), if edge.config.report_every_s > 0 => told = edge.report(told, every),
            () = tokio::time::sleep(wait) => edge.handle(Event::Tick),
        }
    }
    stop.cancel();
}

impl Edge {
    fn new(config: HollowConfig, clients: HollowClients, out: Out, cancel: CancellationToken) -> Self {
        let fleet = Fleet::new(&config);
        let writer = Writer {
            clients: clients.clone(),
            profile: fleet.profile().clone(),
            since: now().wall,
            told_s: AtomicU64::new(0),
        };
        let teller = |_| EventRecorder::new(clients.writes.clone(), "kubelet", "");
        let tellers = (0..if config.events { TELLERS } else { 0 }).map(teller).collect();
        Self { config, clients, fleet, writer: Arc::new(writer), tellers, out, watched: BTreeSet::new(), cancel }
    }

    fn watch(&self) {
        let options = InformerOptions { fan_out: Some(FAN_OUT), ..InformerOptions::all() };
        let nodes = Informer::start(self.clients.watches.clone(), &kinds::NODE, options, self.cancel.clone());
        tokio::spawn(follow_nodes(nodes, self.out.clone()));
        if !self.config.watch_per_machine {
            let options = InformerOptions { fan_out: Some(FAN_OUT), ..InformerOptions::fields("spec.nodeName!=") };
            let pods = Informer::start(self.clients.watches.clone(), &kinds::POD, options, self.cancel.clone());
            tokio::spawn(follow_pods(pods, None, self.out.clone()));
        }
    }

    /// As an agent: its pods alone, once the machine is there.
    fn watch_own(&mut self, machine: u32) {
        if !self.config.watch_per_machine || !self.watched.insert(machine) {
            return;
        }
        let name = self.fleet.place(machine).name(self.fleet.profile());
        let selector = format!("spec.nodeName={name}");
        let options = InformerOptions { fan_out: Some(OWN_FAN_OUT), ..InformerOptions::fields(selector) };
        let pods = Informer::start(self.clients.watches.clone(), &kinds::POD, options, self.cancel.clone());
        tokio::spawn(follow_pods(pods, Some(machine), self.out.clone()));
    }

    fn wait(&self) -> Duration {
        let wake_ms = self.fleet.wake_ms().unwrap_or(u64::MAX);
        Duration::from_millis(wake_ms.saturating_sub(now().boot_ms).min(60_000)).max(TURN)
    }

    fn handle(&mut self, event: Event) {
        if let Event::Registered { machine, uid: Some(_) } = event {
            self.watch_own(machine);
        }
        for effect in self.fleet.step(now(), event) {
            self.perform(effect);
        }
    }

    fn perform(&self, effect: Effect) {
        if let Effect::Tell { machine, pod, level, reason, message, container } = effect {
            let Some(teller) = self.tellers.get(machine as usize % TELLERS) else { return };
            let level = if level == Level::Normal { EventType::Normal } else { EventType::Warning };
            let about = about(&pod, container.as_deref());
            let host = self.fleet.place(machine).name(self.fleet.profile());
            return teller.event_from(&host, &about, level, reason, &message);
        }
        let place = |machine| self.fleet.place(machine);
        let (writer, out) = (self.writer.clone(), self.out.clone());
        match effect {
            Effect::Register { machine } => {
                let place = place(machine);
                answer(out, async move { writer.register(machine, place).await });
            }
            Effect::ReportNode { machine } => {
                let place = place(machine);
                answer(out, async move { writer.report_node(machine, place).await });
            }
            Effect::Renew { machine, owner, create } => {
                let place = place(machine);
                answer(out, async move { writer.renew(machine, place, owner, create).await });
            }
            Effect::WriteStatus { pod, status } => answer(out, async move { writer.status(&pod, &status).await }),
            Effect::Delete { pod } => answer(out, async move { writer.delete(&pod).await }),
            Effect::Tell { .. } => {}
        }
    }

    /// One line for people, with what was written since the last one.
    fn report(&self, before: Figures, every: Duration) -> Figures {
        let f = self.fleet.figures();
        let rate = |now: u64, before: u64| (now - before) / every.as_secs().max(1);
        tracing::info!(
            machines = f.machines,
            registered = f.registered,
            pods = f.pods,
            ready = f.ready,
            finished = f.finished,
            waiting = f.waiting,
            leases_per_s = rate(f.renewals, before.renewals),
            statuses_per_s = rate(f.statuses, before.statuses),
            deletions_per_s = rate(f.deletions, before.deletions),
            failures = f.failures,
            "hollow fleet"
        );
        f
    }
}

/// Brings an answer to the loop. How many are on their way is bounded by the fleet's lanes.
fn answer(out: Out, work: impl Future<Output = Event> + Send + 'static) {
    tokio::spawn(async move {
        let event = work.await;
        // The loop has ended when this fails: there is nobody left to tell.
        drop(out.send(event).await);
    });
}

async fn follow_nodes(informer: Informer<SeenNode>, out: Out) {
    informer.synced().await;
    loop {
        let (nodes, mut changes) = informer.subscribe_with_state();
        for node in nodes {
            drop(out.send(Event::Node(node)).await);
        }
        loop {
            let event = match changes.recv().await {
                Some(Change::Applied { new, .. }) => Event::Node(new),
                Some(Change::Deleted(last)) => Event::NodeGone(last),
                Some(Change::Resync) => break,
                None => return,
            };
            if out.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// `machine`: whose pods these are; `None` for everybody's.
async fn follow_pods(informer: Informer<HollowPod>, machine: Option<u32>, out: Out) {
    informer.synced().await;
    loop {
        let (pods, mut changes) = informer.subscribe_with_state();
        let uids: BTreeSet<Uid> = pods.iter().map(|pod| pod.meta().uid.clone()).collect();
        for pod in pods {
            drop(out.send(Event::Pod(pod.0.clone())).await);
        }
        drop(out.send(Event::Listed { machine, uids }).await);
        loop {
            let event = match changes.recv().await {
                Some(Change::Applied { new, .. }) => Event::Pod(new.0.clone()),
                Some(Change::Deleted(last)) => Event::PodGone(last.meta().uid.clone()),
                Some(Change::Resync) => break,
                None => return,
            };
            if out.send(event).await.is_err() {
                return;
            }
        }
    }
}
