//! The loop over a fake runtime.
