//! Follows one kind without keeping a copy: every change once, in order, to one reader that keeps what it needs itself. A reader
//! that is busy holds the watch back; nothing is dropped and nothing piles up here.

use std::marker::PhantomData;
use std::sync::Arc;

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::Object;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::InformerOptions;
use super::held::{self, Decode, Entry, typed};
use super::reflector::{self, Sink};
use crate::client::Client;

/// Pieces of the stream that wait for the reader.
const PIECES: usize = 16;

/// What a reader is told.
#[derive(Debug)]
pub enum Told<T> {
    /// This is everything there is: the first thing told, and again when changes were lost.
    All(Vec<Arc<T>>),
    Applied(Arc<T>),
    /// It is gone; this was its last state.
    Deleted(Arc<T>),
    /// Every change up to this revision was told.
    Reached(u64),
}

enum Held {
    All(Vec<Entry>),
    Applied(Entry),
    Deleted(Entry),
    Reached(u64),
}

/// Ends with the reader, or with the token that `start` was given.
pub struct Follow<T> {
    pieces: mpsc::Receiver<Vec<Held>>,
    piece: std::vec::IntoIter<Held>,
    _running: DropGuard,
    holds: PhantomData<fn() -> T>,
}

struct Stream {
    kind: &'static Kind,
    decode: Decode,
    piece: Vec<Held>,
    reached: Option<u64>,
    pieces: mpsc::Sender<Vec<Held>>,
}

impl Sink for Stream {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn decode(&self) -> Decode {
        self.decode
    }

    fn replace(&mut self, all: Vec<Entry>) {
        self.piece.push(Held::All(all));
    }

    fn apply(&mut self, object: Entry) {
        self.piece.push(Held::Applied(object));
    }

    fn remove(&mut self, _: &str, _: &str, last: Option<Entry>) -> bool {
        let is_known = last.is_some();
        self.piece.extend(last.map(Held::Deleted));
        is_known
    }

    fn reached(&mut self, revision: u64, whole: bool, _: bool) {
        self.reached = Some(if whole { revision } else { revision.saturating_sub(1) });
    }

    async fn flush(&mut self) {
        // Within a piece only the last one is of use.
        self.piece.extend(self.reached.take().map(Held::Reached));
        if !self.piece.is_empty() {
            // Without a reader the reflector ends soon.
            drop(self.pieces.send(std::mem::take(&mut self.piece)).await);
        }
    }
}

impl<T: Object + DeserializeOwned + Send + Sync + 'static> Follow<T> {
    /// Starts to follow `kind` in a task of its own.
    pub fn start(
        client: Client,
        kind: &'static Kind,
        options: InformerOptions,
        cancel: &CancellationToken,
    ) -> Follow<T> {
        let (sender, pieces) = mpsc::channel(PIECES);
        let stream = Stream { kind, decode: held::decode::<T>, piece: Vec::new(), reached: None, pieces: sender };
        let running = cancel.child_token();
        tokio::spawn(reflector::run(client, options, stream, running.clone()));
        Follow { pieces, piece: Vec::new().into_iter(), _running: running.drop_guard(), holds: PhantomData }
    }
}

impl<T: Send + Sync + 'static> Follow<T> {
    /// What is told next; `None` once it has ended.
    pub async fn next(&mut self) -> Option<Told<T>> {
        loop {
            if let Some(told) = self.piece.next() {
                return Some(told_as(told));
            }
            self.piece = self.pieces.recv().await?.into_iter();
        }
    }

    /// What is told next if it is there already.
    pub fn try_next(&mut self) -> Option<Told<T>> {
        loop {
            if let Some(told) = self.piece.next() {
                return Some(told_as(told));
            }
            self.piece = self.pieces.try_recv().ok()?.into_iter();
        }
    }
}

fn told_as<T: Send + Sync + 'static>(held: Held) -> Told<T> {
    match held {
        Held::All(all) => Told::All(all.into_iter().map(typed).collect()),
        Held::Applied(object) => Told::Applied(typed(object)),
        Held::Deleted(last) => Told::Deleted(typed(last)),
        Held::Reached(revision) => Told::Reached(revision),
    }
}
