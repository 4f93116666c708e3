//! Tests of this controller.
