//! Implements the Kubernetes API on a [`homeostat_store::Store`], as a tower service and a TLS server for it. The rules
//! about objects are in `homeostat-api`; this crate stores objects, serves requests and does the background work.
//!
//! Reading order: [`server`] (from request to response), `request` (parsing of requests), `verbs` (one file each, with
//! the write path in `verbs/pipeline.rs`), `registry` (the served resources), `stored` (objects as store entries),
//! [`preload`] (objects from another server) and [`data_migrations`] (earlier formats), `backend` (the shared parts of
//! every request), `background_queue` and [`background`] (work after a write), [`bootstrap`] (default objects),
//! [`certificates`] (issuing them), [`auth`] (authentication and authorization), [`admission`] (plugins that may change
//! or refuse a write), `conversion` (versions of custom objects) and `webhook_client` (both call users' servers),
//! [`audit`] (the audit log), `streams` (connections to containers), `expensive_requests` (requests that take a long
//! time), `yielding_work` (loops that do) and `namespace_locks` (one namespace does not wait for another), then the
//! network side: [`serve`] within [`limits`], `health`, `metrics`.

pub mod admission;
mod api_services;
pub mod audit;
pub mod auth;
mod backend;
pub mod background;
mod background_queue;
pub mod body;
pub mod bootstrap;
pub mod certificates;
mod continue_token;
mod conversion;
pub mod data_migrations;
mod default_account;
mod definition_lifecycle;
mod expensive_requests;
mod field_fights;
mod health;
mod idle_revision_bump;
pub mod limits;
pub mod logs;
mod metrics;
mod namespace_locks;
mod new_object_metadata;
mod normalize_object;
pub mod preload;
#[cfg(test)]
mod random_json_tests;
mod refusal_counts;
mod refusal_log;
mod registry;
mod request;
mod seen_kinds;
pub mod serve;
pub mod server;
mod server_changes;
mod stored;
pub mod streams;
mod verbs;
mod webhook_client;
pub mod write_history;
mod yielding_work;

pub use background::BackgroundWorker;
pub use health::kubernetes_version;
pub use server::ApiServer;
