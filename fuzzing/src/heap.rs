//! What a thread has on the heap, counted, for tests that bound it. It allocates nothing of its own.
#![expect(unsafe_code, reason = "an allocator is unsafe by nature; it only counts and passes on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local! {
    /// The bytes that this thread has allocated and not given back, and the most that there were.
    static BYTES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn took(bytes: usize) {
    BYTES.with(|counted| {
        let (now, most) = counted.get();
        // What another thread allocated may be given back here.
        let now = now.saturating_add(bytes);
        counted.set((now, most.max(now)));
    });
}

fn gave(bytes: usize) {
    BYTES.with(|counted| {
        let (now, most) = counted.get();
        counted.set((now.saturating_sub(bytes), most));
    });
}

// SAFETY: every call goes to the system's allocator as it came. Counting allocates nothing: the cell needs neither a
// constructor nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while one is copied to the other.
        took(size);
        gave(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What `work` answers, and the most bytes that this thread had on the heap meanwhile beyond those before.
pub fn most_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = BYTES.with(|counted| {
        let (now, _) = counted.get();
        counted.set((now, now));
        now
    });
    let answer = work();
    let (_, most) = BYTES.with(Cell::get);
    (answer, most - before)
}

#[test]
fn the_most_is_counted_although_it_is_given_back() {
    let (sum, most) = most_bytes(|| {
        let large = vec![1u8; 100_000];
        let sum: usize = large.iter().map(|byte| usize::from(*byte)).sum();
        drop(large);
        sum + vec![1u8; 50_000].len()
    });
    assert_eq!(sum, 150_000);
    assert!((100_000..101_000).contains(&most), "{most}");
    let mut grown = vec![0u8; 1_000];
    let (_, most) = most_bytes(|| grown.reserve_exact(9_000));
    assert!((10_000..10_100).contains(&most), "{most}");
}
