//! The Kubernetes API over a [`homeostat_store::Store`]: a tower service, plus what serves it over TLS.
//!
//! Reading order: [`server`] (from request to response), `request` and [`negotiate`] (what is asked), `verbs` (one
//! file each), [`resource`] and `registry` (what is served), `storage` and [`migration`] (where it is kept), `object`,
//! [`schema`], [`kinds`] and [`patch`] (what happens to an object), `keeper` (what happens afterwards), [`auth`] (who
//! may), then the documents: [`discovery`], `table`, `openapi`.

pub mod auth;
mod backend;
pub mod body;
pub mod bootstrap;
mod convert;
mod crd;
pub mod decode;
pub mod discovery;
pub mod field;
pub mod health;
mod heavy;
pub mod keeper;
pub mod kinds;
pub mod logs;
pub mod metadata;
mod metrics;
pub mod migration;
mod namespace;
pub mod negotiate;
mod object;
pub mod openapi;
mod ordered;
mod page;
pub mod patch;
mod protobuf;
mod registry;
mod request;
pub mod resource;
mod rewrite;
pub mod schema;
pub mod serve;
pub mod server;
pub mod status;
mod storage;
pub mod table;
mod verbs;

pub use keeper::Keeper;
pub use server::ApiServer;
