//! The API server: REST, watch cache, admission, authentication, authorisation and fairness over a `Store`.
//! It holds no state that the store does not have.

mod server_api;

pub mod config;
pub mod core;

pub mod admission;
pub mod aggregation;
pub mod audit;
pub mod auth;
pub mod cache;
pub mod convert;
pub mod custom;
pub mod effects;
pub mod fairness;
pub mod kinds;
pub mod pipeline;
pub mod rest;
pub mod route;
pub mod served;

pub mod connect;
pub mod endpoints;
pub mod gantry;
pub mod subresources;

pub mod bootstrap;
pub mod http;
pub mod in_process;
pub mod metrics;
mod outbound;
pub mod presence;
mod process;
mod proxy;
pub mod quota;
pub mod server;
pub mod shares;
pub mod streams;

pub use audit::LogConfig;
pub use auth::UserInfo;
pub use config::{
    AccessWebhook, AuditConfig, Config, FrontProxyPem, KubeletClientPem, OidcConfig, RequestHeaderConfig, TokenWebhook,
    WebhookServer,
};
pub use core::{StartError, Stores};
pub use in_process::InProcess;
pub use server_api::{ApiServer, server_config};
