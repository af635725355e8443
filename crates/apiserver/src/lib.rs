//! The Kubernetes API over a [`homeostat_store::Store`]: a tower service, and a TLS server for it. The rules about
//! objects are in `homeostat-api`; this crate stores objects, answers requests and does the background work.
//!
//! Reading order: [`server`] (from request to response), `request` (parsing of requests), `verbs` (one file each, with
//! the write path in `verbs/pipeline.rs`), `registry` (the served resources), `stored` (objects as entries of the
//! store) and [`data_formats`] (earlier formats), `backend` (the shared parts of every request), `background_notices`
//! and [`background`] (work after a write), [`bootstrap`] (default objects), [`auth`] (authentication and
//! authorization), [`admission`] (who else may change or refuse a write), `expensive` (requests that take long), then
//! the network side: [`serve`] within [`limits`], `health`, `metrics`.

pub mod admission;
mod api_services;
pub mod auth;
mod backend;
pub mod background;
mod background_notices;
pub mod body;
pub mod bootstrap;
mod continue_token;
pub mod data_formats;
mod default_account;
mod definition_lifecycle;
mod expensive;
mod health;
mod history_progress;
pub mod limits;
pub mod logs;
mod metrics;
mod new_object_metadata;
mod normalize_object;
mod refusal_counts;
mod registry;
mod request;
pub mod serve;
pub mod server;
mod server_changes;
mod stored;
mod verbs;
pub mod write_history;

pub use background::BackgroundWorker;
pub use server::ApiServer;
