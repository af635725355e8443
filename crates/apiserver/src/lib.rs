//! The Kubernetes API over a [`homeostat_store::Store`]: a tower service, plus what serves it over TLS.

pub mod auth;
pub mod body;
pub mod bootstrap;
pub mod decode;
pub mod discovery;
pub mod field;
pub mod health;
pub mod kinds;
pub mod metadata;
pub mod negotiate;
pub mod patch;
pub mod resource;
pub mod schema;
pub mod serve;
pub mod status;
pub mod table;
