//! Properties of the state machine.
