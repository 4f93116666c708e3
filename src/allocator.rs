//! The process's memory allocator. Decides that an arena is made accessible page by page: at once, as is the default, the kernel
//! would back it with huge pages, of which an idle cluster then holds many for little (docs/decisions/007-mimalloc.md).
#![expect(unsafe_code, reason = "an allocator's option is set before anything is allocated, thus before `main`")]

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_arena_eager_commit` of mimalloc 3.
const ARENA_EAGER_COMMIT: mi_option_t = 4;

// SAFETY: the loader calls each entry of `.init_array` once, as a C function without arguments whose result it ignores. The suffix
// places this one before the allocator's own, which reads the options.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_MAIN: extern "C" fn() = set_options;

extern "C" fn set_options() {
    // SAFETY: stores a number in a table of the allocator; no other thread runs yet.
    unsafe { mi_option_set(ARENA_EAGER_COMMIT, 0) };
}
