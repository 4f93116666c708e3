//! The API server: REST, watch cache, admission, authentication, authorisation and fairness over a `Store`.
//! It holds no state that the store does not have.

pub mod auth;
pub mod cache;
pub mod fairness;
pub mod http;
pub mod kinds;
