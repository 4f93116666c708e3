//! What readers share with whoever applies entries: the state itself, the news that it changed, and the index by which a
//! commit finds the readers whose watches it concerns. The index only says which commits are worth a look; what a watch is
//! told, its reader takes from the commit. So no event is lost or doubled however slow a reader is, and nothing is buffered for
//! it without bound.
//!
//! The state is changed in place. A clone of it is made when somebody asks for a [`Hub::view`], at most one between two changes:
//! a state that was cloned has to copy the tree nodes that it changes next, so writes that nobody reads copy nothing.

mod follow;
mod index;
mod past;
mod post;
mod ranges;
mod reader;
mod round;

use crate::api::{Revision, StoreError, Watch, WatchRequest};
use crate::archive::{ArchiveRef, Nothing};
use crate::mvcc::{self, Applied, Commit, Diverged, Entry, Mvcc};
use crate::signal as watch;
use arc_swap::ArcSwapOption;
use index::{Index, Reach};
use parking_lot::{Mutex, RwLock};
use past::Origins;
use post::Post;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use past::{Origin, Traced, replies};
pub use reader::{Delivery, Options, Reader, Step};

/// How far things may go.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// An in-process reader whose channel is full and who is this many revisions behind is cut off.
    lag: u64,
    /// Commits that wait in a reader's post.
    post: usize,
    /// Events after which a reader's round ends (with the revision that crosses it).
    round: usize,
    /// Revisions that a reader looks at before others may use the processor.
    look: u64,
}

const BOUNDS: Bounds = Bounds { lag: 200_000, post: 512, round: 1_024, look: 2_048 };
/// Commits that are dispatched before others may use the index.
const DISPATCH: usize = 64;
/// A dispatch that reached this many readers is followed by a pause, so that each of them is woken for several commits at
/// once: waking costs more than a few commits more.
const CROWD: usize = 32;
const PAUSE: Duration = Duration::from_millis(5);

pub struct Hub {
    state: RwLock<Mvcc>,
    /// A clone of `state`, since the last change. Written while `state` is locked.
    view: ArcSwapOption<Mvcc>,
    /// Who has the values that the state has not.
    archive: ArchiveRef,
    /// Which log entries made the state what it is. Taken after the state.
    origins: Mutex<Origins>,
    /// `state`'s, for those who need no more.
    revision: AtomicU64,
    applied: watch::Sender<Revision>,
    bounds: Bounds,
    /// Every reader has in its post what concerns it up to here. Written under `desk`.
    dispatched: AtomicU64,
    desk: Mutex<Desk>,
}

/// Who reads what.
#[derive(Default)]
struct Desk {
    index: Index<u32>,
    /// By the number that the index has.
    posts: Vec<Option<Arc<Post>>>,
    free: Vec<u32>,
    watches: usize,
    /// Index entries looked at since the start.
    touched: u64,
    running: bool,
}

/// The hub at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubStats {
    pub watches: usize,
    /// Streams of watches: an etcd client's, or one for each watch in this process.
    pub streams: usize,
    /// Revisions that the slowest stream is behind.
    pub behind: u64,
    /// Entries of the index that commits have been held against, in all.
    pub touched: u64,
}

impl Hub {
    /// Whose values are all in memory.
    pub fn new(mvcc: Mvcc) -> Arc<Self> {
        Self::over(mvcc, Arc::new(Nothing))
    }

    /// Whose superseded values may be put away into `archive`.
    pub fn over(mvcc: Mvcc, archive: ArchiveRef) -> Arc<Self> {
        Self::with_bounds(mvcc, archive, BOUNDS)
    }

    fn with_bounds(mvcc: Mvcc, archive: ArchiveRef, bounds: Bounds) -> Arc<Self> {
        let applied = watch::Sender::new(mvcc.revision());
        let (revision, dispatched) = (AtomicU64::new(mvcc.revision().0), AtomicU64::new(mvcc.revision().0));
        let (state, view, desk) = (RwLock::new(mvcc), ArcSwapOption::empty(), Mutex::default());
        let origins = Mutex::default();
        Arc::new(Self { state, view, archive, origins, revision, applied, bounds, dispatched, desk })
    }

    /// The newest state; it never changes under the caller. For those who read much of it or keep it: see [`Self::look`].
    pub fn view(&self) -> Arc<Mvcc> {
        self.view.load_full().unwrap_or_else(|| self.view_of(&self.state.read()))
    }

    fn view_of(&self, state: &Mvcc) -> Arc<Mvcc> {
        self.view.load_full().unwrap_or_else(|| {
            let view = Arc::new(state.clone());
            self.view.store(Some(view.clone()));
            view
        })
    }

    /// Looks at the newest state, which does not change meanwhile: for what takes no longer than one key.
    pub fn look<T>(&self, at: impl FnOnce(&Mvcc) -> T) -> T {
        at(&self.state.read())
    }

    pub fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// Applies an entry. What it does is seen at once; those who wait for it hear of it by [`Self::announce`], once for several
    /// entries.
    pub fn apply(&self, entry: &Entry, origin: Option<Origin>) -> Result<Applied, Diverged> {
        if entry.compacts() {
            // A compaction does not overtake those who keep up.
            self.dispatch();
        }
        self.change(|state| {
            let before = state.revision().0;
            let applied = mvcc::apply(state, entry)?;
            if let Some(origin) = origin {
                self.note_origin(state, before, entry, &origin);
            }
            Ok(self.pin_for(applied))
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Mvcc) -> T) -> T {
        let mut state = self.state.write();
        // Before the change: what it shares with the state is the state's alone then, if nobody reads it any more.
        drop(self.view.swap(None));
        let done = change(&mut state);
        self.revision.store(state.revision().0, Ordering::Release);
        done
    }

    /// Puts another state in the place of this one.
    pub fn replace(&self, mvcc: Mvcc) {
        if mvcc.oldest().0 > self.dispatched() + 1 {
            self.dispatch();
        }
        let before = self.change(|state| {
            *self.origins.lock() = Origins::default();
            std::mem::replace(state, mvcc)
        });
        // Outside of the lock: it may be large.
        drop(before);
        self.announce();
    }

    pub fn announce(&self) {
        let now = self.revision();
        self.applied.send_if_modified(|revision| std::mem::replace(revision, now) != now);
    }

    /// Waits until `revision` is applied here.
    pub async fn reached(&self, revision: Revision) {
        let mut applied = self.applied.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = applied.wait_for(|now| *now >= revision).await;
    }

    /// Starts a watch. `from` 0 means everything after now.
    pub fn watch(self: &Arc<Self>, request: WatchRequest) -> Result<Watch, StoreError> {
        follow::follow(self, &request)
    }

    pub fn stats(&self) -> HubStats {
        let desk = self.desk.lock();
        let newest = self.revision().0;
        let told = self.dispatched();
        let first = desk.posts.iter().flatten().map(|post| post.behind_from().unwrap_or(told + 1)).min();
        HubStats {
            watches: desk.watches,
            streams: desk.posts.iter().flatten().count(),
            behind: first.map_or(0, |first| (newest + 1).saturating_sub(first)),
            touched: desk.touched,
        }
    }

    fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    /// Every reader has been handed what concerns it up to here.
    fn told(&self) -> u64 {
        let mut desk = self.desk.lock();
        if desk.watches == 0 {
            self.dispatch_some(&mut desk);
        }
        self.dispatched()
    }

    /// Puts every published commit into the posts of those whom it concerns; answers how many it reached.
    fn dispatch(&self) -> usize {
        let mut reached = 0;
        loop {
            let mut desk = self.desk.lock();
            let (told, more) = self.dispatch_some(&mut desk);
            reached += told;
            if !more {
                return reached;
            }
        }
    }

    fn dispatch_some(&self, desk: &mut Desk) -> (usize, bool) {
        let next = self.dispatched() + 1;
        if desk.watches == 0 {
            self.dispatched.store(self.revision().0.max(next - 1), Ordering::Release);
            return (0, false);
        }
        let (newest, commits) = self.look(|state| (state.revision().0, state.commits_from(next, DISPATCH)));
        let mut done = next - 1 + commits.len() as u64;
        if commits.is_empty() && done < newest {
            // A snapshot of another member took the place of what was here. Each reader finds out for itself what it lost.
            desk.posts.iter().flatten().for_each(|post| post.miss(next));
            done = newest;
        }
        let reached = (next..).zip(&commits).map(|(revision, commit)| desk.tell(revision, commit)).sum();
        self.dispatched.store(done, Ordering::Release);
        (reached, done < newest)
    }

    /// Follows what is published until the hub is gone.
    fn start(self: &Arc<Self>) {
        let applied = self.applied.subscribe();
        tokio::spawn(run(applied, Running(Arc::downgrade(self))));
    }
}

impl Desk {
    /// How many readers did not have it yet.
    fn tell(&mut self, revision: u64, commit: &Commit) -> usize {
        let bytes = post::weight(commit);
        let mut told = 0;
        for change in commit.changes() {
            let posts = &self.posts;
            let touched = self.index.visit(change.kv.key(), |reader| {
                if let Some(Some(post)) = posts.get(reader as usize) {
                    told += usize::from(post.put(revision, commit, bytes));
                }
            });
            self.touched += touched as u64;
        }
        told
    }
}

/// The dispatching task's mark, so that another is started if its runtime ends before the hub.
struct Running(Weak<Hub>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(hub) = self.0.upgrade() {
            hub.desk.lock().running = false;
        }
    }
}

async fn run(mut applied: watch::Receiver<Revision>, running: Running) {
    loop {
        drop(applied.borrow_and_update());
        let reached = match running.0.upgrade() {
            Some(hub) => hub.dispatch(),
            None => return,
        };
        if reached >= CROWD {
            tokio::time::sleep(PAUSE).await;
        }
        if applied.changed().await.is_err() {
            return;
        }
    }
}

/// What readers do at the desk.
impl Hub {
    /// A new reader's number; what is published from the answered revision's successor on comes to its post.
    fn enter(self: &Arc<Self>, post: Arc<Post>) -> (u32, u64) {
        let mut desk = self.desk.lock();
        if !std::mem::replace(&mut desk.running, true) {
            self.start();
        }
        let number = desk.free.pop().unwrap_or_else(|| {
            desk.posts.push(None);
            u32::try_from(desk.posts.len() - 1).expect("readers are connections, and they are far fewer")
        });
        desk.posts[number as usize] = Some(post);
        (number, self.dispatched())
    }

    /// Adds a watch of `reader`; commits after the answered revision come to its post. The span comes back as the index
    /// keeps it.
    fn add(&self, reader: u32, reach: &Reach) -> (Reach, u64) {
        let mut desk = self.desk.lock();
        if desk.watches == 0 {
            // Nobody has been told of anything for a while.
            self.dispatch_some(&mut desk);
        }
        desk.watches += 1;
        let kept = desk.index.get(reach).unwrap_or_else(|| reach.clone());
        desk.index.insert(&kept, reader);
        (kept, self.dispatched())
    }

    /// Takes watches away; a span goes from the index if the reader has no other watch of it.
    fn remove<'a>(&self, reader: u32, watches: usize, gone: impl IntoIterator<Item = &'a Reach>) {
        let mut desk = self.desk.lock();
        desk.watches -= watches;
        gone.into_iter().for_each(|reach| desk.index.remove(reach, reader));
    }

    fn leave(&self, reader: u32) {
        let mut desk = self.desk.lock();
        desk.posts[reader as usize] = None;
        desk.free.push(reader);
    }

    /// Lets a reader that has seen everything up to `seen` for itself hear of commits again; `false`: it must see more first.
    fn resume(&self, post: &Post, seen: u64) -> bool {
        let _alone = self.desk.lock();
        let caught_up = seen >= self.dispatched();
        if caught_up {
            post.resume();
        }
        caught_up
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
