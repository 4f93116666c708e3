//! The process's memory allocator: mimalloc (docs/decisions/007-mimalloc.md). Decides two things about it. An arena is made accessible
//! page by page: at once, as is the default, the kernel would back it with huge pages, of which an idle cluster then holds many for
//! little. And what needs no more than a word's alignment, which is nearly everything, is asked for by its size alone.
#![expect(unsafe_code, reason = "an allocator is unsafe by nature, and its options are set before `main`")]

use libmimalloc_sys as mi;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Blocks of any size are aligned to a word.
const WORD: usize = align_of::<usize>();

// SAFETY: every block comes from mimalloc and goes back to it; a plain block is aligned to a word, any other is asked for with its
// alignment, also when it grows.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let block = if align <= WORD {
            // SAFETY: any size may be asked for.
            unsafe { mi::mi_malloc(size) }
        } else {
            // SAFETY: the alignment is a power of two.
            unsafe { mi::mi_malloc_aligned(size, align) }
        };
        block.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let block = if align <= WORD {
            // SAFETY: any size may be asked for.
            unsafe { mi::mi_zalloc(size) }
        } else {
            // SAFETY: the alignment is a power of two.
            unsafe { mi::mi_zalloc_aligned(size, align) }
        };
        block.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's block is one of mimalloc's.
        unsafe { mi::mi_free(block.cast::<c_void>()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let block = block.cast::<c_void>();
        let grown = if layout.align() <= WORD {
            // SAFETY: the caller's block is one of mimalloc's.
            unsafe { mi::mi_realloc(block, size) }
        } else {
            // SAFETY: as above; the alignment is a power of two.
            unsafe { mi::mi_realloc_aligned(block, size, layout.align()) }
        };
        grown.cast()
    }
}

/// `mi_option_arena_eager_commit` of mimalloc 3.
const ARENA_EAGER_COMMIT: mi::mi_option_t = 4;

// SAFETY: the loader calls each entry of `.init_array` once, as a C function without arguments whose result it ignores. The suffix
// places this one before the allocator's own, which reads the options.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_MAIN: extern "C" fn() = set_options;

extern "C" fn set_options() {
    // SAFETY: stores a number in a table of the allocator; no other thread runs yet.
    unsafe { mi::mi_option_set(ARENA_EAGER_COMMIT, 0) };
}
