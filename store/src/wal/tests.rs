//! The log against crashes and damage.
