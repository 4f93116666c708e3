//! The API server from outside its pipeline, in this process over an in-memory store: one module per behaviour.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod admission;
mod aggregation;
mod allocation;
mod audit;
mod auth;
mod auth_certificates;
mod auth_roles;
mod authenticators;
mod bad_input;
mod binding;
mod binding_batches;
mod custom;
mod default_classes;
mod delete;
mod discovery;
mod event_batches;
mod fairness;
mod harness;
mod kinds;
mod lists;
mod little;
mod machine;
mod objects;
mod patches;
mod patience;
mod placing;
mod proxy;
mod quotas;
mod reports;
mod streams;
mod tables;
mod watches;
mod webhooks;
mod wire;
