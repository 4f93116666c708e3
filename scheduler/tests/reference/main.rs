//! Checks the reference itself: every rule against cases made by hand from what the Kubernetes documents state, and
//! that random clusters make each rule decide often. Sibling test files take the reference with `mod reference;`.

mod cases;
mod core;
#[path = "mod.rs"]
mod reference;
