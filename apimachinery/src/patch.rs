//! The four ways to change an object by a patch.
//!
//! It decides what the patched object is; whether that object is valid, and who may write it, is decided elsewhere.

pub mod json;
pub mod merge;
pub mod strategic;

pub mod apply;
