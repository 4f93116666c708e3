//! Readers against the plainest model there is: a list of commits and a test of every watch against each. Commits, watches,
//! cancellations, compactions, dispatches and slow reading come in any order; each delivery must be exactly what the model has
//! between the delivery before it and its own revision.

use super::*;
use crate::api::RangeRequest;
use crate::api::{Delete, Event, EventKind, Op, Put, Txn};
use crate::archive::{Shelf, bring_back};
use crate::mvcc::{Change, Command, Compact, Entry, Warm, Window, apply};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const READERS: usize = 3;
const TIGHT: Bounds = Bounds { lag: 1_000, post: 3, round: 4, look: 4 };

#[derive(Clone, Debug)]
enum Action {
    /// Keys to put or delete in one revision, and whether readers may see it at once.
    Commit(BTreeMap<u8, bool>, bool),
    Dispatch,
    Open {
        reader: usize,
        start: u8,
        end: Option<u8>,
        back: u64,
        options: Options,
    },
    Close {
        reader: usize,
        which: usize,
    },
    Read {
        reader: usize,
        steps: usize,
    },
    /// A reader that is through has told everything.
    Through {
        reader: usize,
    },
    Compact {
        back: u64,
    },
    /// Superseded values go to the archive, all that may.
    PutAway,
    /// A range in the past.
    Range {
        back: u64,
    },
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(prev_kv, no_put, no_delete)| Options {
        prev_kv,
        no_put: no_put && !no_delete,
        no_delete,
        ..Options::default()
    })
}

fn action() -> impl Strategy<Value = Action> {
    let reader = 0..READERS;
    prop_oneof![
        8 => (proptest::collection::btree_map(0_u8..6, prop::bool::weighted(0.7), 1..4), prop::bool::weighted(0.8))
            .prop_map(|(keys, publish)| Action::Commit(keys, publish)),
        3 => Just(Action::Dispatch),
        4 => (reader.clone(), 0_u8..6, proptest::option::of(0_u8..8), 0_u64..12, options()).prop_map(
            |(reader, start, end, back, options)| Action::Open { reader, start, end, back, options }
        ),
        1 => (reader.clone(), 0_usize..4).prop_map(|(reader, which)| Action::Close { reader, which }),
        6 => (reader.clone(), 1_usize..6).prop_map(|(reader, steps)| Action::Read { reader, steps }),
        1 => reader.prop_map(|reader| Action::Through { reader }),
        1 => (0_u64..6).prop_map(|back| Action::Compact { back }),
        6 => Just(Action::PutAway),
        2 => (0_u64..12).prop_map(|back| Action::Range { back }),
    ]
}

fn key(number: u8) -> Bytes {
    Bytes::from(vec![b'a' + number])
}

/// One watch as the model knows it.
struct Seen {
    start: Bytes,
    end: Bytes,
    options: Options,
    /// Everything up to here was delivered.
    up_to: u64,
}

impl Seen {
    fn wants(&self, event: &Event) -> bool {
        let key = &event.kv.key[..];
        let inside = match &self.end[..] {
            [] => key == self.start,
            [0] => key >= &self.start[..],
            end => key >= &self.start[..] && key < end,
        };
        let filtered = match event.kind {
            EventKind::Put => self.options.no_put,
            EventKind::Delete => self.options.no_delete,
        };
        inside && !filtered
    }
}

struct World {
    mvcc: Mvcc,
    hub: Arc<Hub>,
    shelf: Shelf,
    window: Window,
    /// Every state there was, by its revision.
    states: Vec<BTreeMap<Bytes, Bytes>>,
    readers: Vec<(Reader, BTreeMap<i64, Seen>)>,
    /// Every event there ever was.
    all: Vec<Event>,
    next_id: i64,
}

impl World {
    fn new() -> Self {
        let shelf = Shelf::default();
        let hub = Hub::with_bounds(Mvcc::default(), Arc::new(shelf.clone()), TIGHT);
        let readers = (0..READERS).map(|_| (Reader::new(&hub), BTreeMap::new())).collect();
        let (window, states) = (Window::default(), vec![BTreeMap::new(); 2]);
        Self { mvcc: Mvcc::default(), hub, shelf, window, states, readers, all: Vec::new(), next_id: 0 }
    }

    /// What the model has for a watch after what it was told, up to `revision`.
    fn expected(all: &[Event], seen: &Seen, revision: u64) -> Vec<Event> {
        let due = |event: &&Event| {
            let at = event.kv.mod_revision.0;
            at > seen.up_to && at <= revision && seen.wants(event)
        };
        let without =
            |event: &Event| Event { prev_kv: event.prev_kv.clone().filter(|_| seen.options.prev_kv), ..event.clone() };
        all.iter().filter(due).map(without).collect()
    }

    fn apply(&mut self, command: Command) {
        apply(&mut self.mvcc, &Entry { time_ms: 0, commands: vec![command] }).unwrap();
    }

    fn commit(&mut self, keys: &BTreeMap<u8, bool>, publish: bool) {
        let before = self.mvcc.revision();
        let op = |(number, put): (&u8, &bool)| match put {
            true => Op::Put(Put { key: key(*number), value: before.0.to_string().into(), ..Put::default() }),
            false => Op::Delete(Delete { start: key(*number), ..Delete::default() }),
        };
        self.apply(Command::Txn(Txn { success: keys.iter().map(op).collect(), ..Txn::default() }));
        if self.mvcc.revision() > before {
            let commit = self.mvcc.commit(self.mvcc.revision().0).unwrap();
            let mut state = self.states.last().unwrap().clone();
            for change in commit.changes() {
                let prev = change.prev.as_ref().map(|prev| bring_back(prev, &self.shelf).unwrap());
                let event = Change { prev, ..change.clone() }.event(true);
                match event.kind {
                    EventKind::Put => state.insert(event.kv.key.clone(), event.kv.value.clone()),
                    EventKind::Delete => state.remove(&event.kv.key),
                };
                self.all.push(event);
            }
            self.states.push(state);
        }
        if publish {
            self.hub.replace(self.mvcc.clone());
        }
    }

    fn open(&mut self, reader: usize, request: &WatchRequest, options: Options) {
        let id = self.next_id;
        self.next_id += 1;
        let (reader, seen) = &mut self.readers[reader];
        match reader.open(id, request, options) {
            Ok(after) => {
                let expect = if request.from.0 == 0 { self.hub.view().revision().0 } else { request.from.0 - 1 };
                assert_eq!(after.0, expect);
                let watch = Seen { start: request.start.clone(), end: request.end.clone(), options, up_to: after.0 };
                seen.insert(id, watch);
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Compacted { .. }), "{error:?}");
                assert!(request.from < self.hub.view().oldest());
            }
        }
    }

    /// One step; whether there may be more.
    fn read(&mut self, reader: usize) -> bool {
        let newest = self.hub.view().revision();
        let oldest = self.hub.view().oldest();
        let (reader, watches) = &mut self.readers[reader];
        let step = reader.step();
        let more = !matches!(step, Step::Idle);
        if let Step::Fetch(fetch) = step {
            reader.fetched(fetch.run());
            return true;
        }
        if let Step::Delivery(Delivery { id, batch, options }) = step {
            let seen = watches.get_mut(&id).expect("only what is watched is delivered");
            assert_eq!(options, seen.options);
            match batch {
                Ok(batch) => {
                    assert!(!batch.events.is_empty() && batch.revision <= newest);
                    assert_eq!(batch.events, Self::expected(&self.all, seen, batch.revision.0));
                    seen.up_to = batch.revision.0;
                }
                Err(StoreError::Compacted { requested, oldest: told }) => {
                    assert!(requested.0 > seen.up_to && requested < told && told <= oldest);
                    watches.remove(&id);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        for (id, seen) in &*watches {
            if let Some(position) = reader.position(*id) {
                assert_eq!(Self::expected(&self.all, seen, position.0), [], "it was told up to {position}");
            }
        }
        more
    }

    fn through(&mut self, number: usize) {
        let mark = self.readers[number].0.mark();
        assert_eq!(mark, self.hub.view().revision());
        while self.read(number) {}
        let (reader, watches) = &self.readers[number];
        let future = watches.values().any(|seen| seen.up_to > mark.0);
        assert_eq!(reader.reached(mark), !future, "unless a watch has not begun");
        for seen in watches.values() {
            assert_eq!(Self::expected(&self.all, seen, mark.0), []);
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Commit(keys, publish) => self.commit(keys, *publish),
            Action::Dispatch => drop(self.hub.dispatch()),
            Action::Open { reader, start, end, back, options } => {
                // 10 and more: from now on; 0 and 1: from the future.
                let from = if *back >= 10 { 0 } else { (self.mvcc.revision().0 + 2).saturating_sub(*back).max(1) };
                let end = match end {
                    None => Bytes::new(),
                    Some(7) => Bytes::from_static(b"\0"),
                    Some(end) => key(*end),
                };
                let prev_kv = options.prev_kv;
                self.open(*reader, &WatchRequest { start: key(*start), end, from: Revision(from), prev_kv }, *options);
            }
            Action::Close { reader, which } => {
                let (reader, watches) = &mut self.readers[*reader];
                if let Some(id) = watches.keys().nth(*which).copied() {
                    watches.remove(&id);
                    assert!(reader.close(id));
                    assert!(!reader.has(id) && !reader.close(id));
                }
            }
            Action::Read { reader, steps } => drop((0..*steps).all(|_| self.read(*reader))),
            Action::Through { reader } => self.through(*reader),
            Action::PutAway => {
                while {
                    let warm = Warm { bytes: 0, least: 1 };
                    let told = Revision(self.hub.dispatched());
                    let due = self.hub.look(|state| self.window.due(state, told, &warm, 5));
                    let swaps: Vec<_> = due.values.into_iter().map(|old| self.shelf.swap(old)).collect();
                    self.hub.put_away(&swaps);
                    due.more
                } {}
                // The state that commits are made of goes on from what readers see.
                if self.hub.revision() == self.mvcc.revision() {
                    self.mvcc = self.hub.look(Mvcc::clone);
                }
            }
            Action::Range { back } => {
                let at = Revision(self.hub.revision().0.saturating_sub(*back).max(1));
                let request = RangeRequest {
                    start: key(0),
                    end: Bytes::from_static(b"\0"),
                    revision: Some(at),
                    ..RangeRequest::default()
                };
                let (view, archive) = self.hub.pinned_view();
                match view.range(&request) {
                    Ok(found) => {
                        let found = found.fetch(&*archive).unwrap();
                        let found: BTreeMap<_, _> = found.kvs.into_iter().map(|kv| (kv.key, kv.value)).collect();
                        assert_eq!(found, self.states[at.0 as usize], "at {at}");
                    }
                    Err(error) => assert!(at < view.oldest(), "{error}"),
                }
            }
            Action::Compact { back } => {
                // As the machine does it.
                self.hub.replace(self.mvcc.clone());
                let revision = Revision(self.mvcc.revision().0.saturating_sub(*back));
                self.apply(Command::Compact(Compact { revision, check: None }));
                self.hub.replace(self.mvcc.clone());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn readers_are_told_what_a_list_of_commits_says(actions in proptest::collection::vec(action(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let mut world = World::new();
        for action in &actions {
            world.act(action);
        }
        world.hub.replace(world.mvcc.clone());
        for reader in 0..READERS {
            world.through(reader);
        }
        let watches: usize = world.readers.iter().map(|(_, watches)| watches.len()).sum();
        let stats = world.hub.stats();
        prop_assert_eq!((stats.watches, stats.streams, stats.behind), (watches, READERS, 0));
        world.readers.clear();
        prop_assert!(world.hub.desk.lock().index.is_empty());
    }
}
