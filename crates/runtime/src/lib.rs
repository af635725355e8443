//! Reconcilers: functions that make actual state equal to desired state, called when something changed, retried when
//! they fail, and explained by a journal.
//!
//! ```text
//! watch (list/watch machine) → cache (shared, indexed) → relations (who must reconcile)
//!    → queue (dedupe, fairness, backoff, causes) → workers → reconcile → settle → journal
//! ```
//! Reading order for users: [`Operator`], [`Controller`], [`Context`], [`Action`] and [`Fault`]. For maintainers:
//! `queue`, `watch::machine`, `cache`, `relations`, `engine`, `worker`, `operator`.

#![deny(clippy::exit)]

mod action;
mod admin;
mod assemble;
pub mod cache;
mod caches;
mod connect;
mod context;
mod controller;
mod controller_queue;
mod declared;
mod definitions;
mod election;
mod engine;
mod error;
mod events;
mod fault;
mod fence;
pub mod handlers;
pub mod journal;
mod json_diff;
pub mod kind;
mod launch;
mod manifests;
mod metrics;
mod object;
mod operator;
#[cfg(feature = "otel")]
pub mod otel;
mod panics;
mod predicate;
pub mod queue;
mod recent;
mod relations;
mod request;
mod rights;
mod rule;
mod run;
mod shared;
mod span_links;
mod states;
mod takeover;
mod tasks;
mod watch;
mod worker;
pub mod world;

pub use action::Action;
pub use assemble::Control;
pub use context::{Context, Parent, StatusBase, condition};
pub use controller::Controller;
pub use error::Error;
pub use events::Severity;
pub use fault::{BoxError, Fault, Result, retry_after, terminal};
pub use handlers::Handlers;
pub use journal::Journal;
pub use kind::{Kind, Metadata, Target};
pub use operator::{Connect, Operator};
pub use predicate::{Predicate, changed};
pub use queue::Backoff;
pub use relations::Selector;
pub use tokio_util::sync::CancellationToken;
