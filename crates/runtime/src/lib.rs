//! Runs reconcilers: functions that make the actual state match the desired state, which are called when something has
//! changed, retried when they fail, and explained by a journal.
//!
//! ```text
//! watch (list/watch protocol) → cache (shared, indexed) → relations (who must reconcile)
//!    → queue (dedupe, fairness, backoff, causes) → workers → engine → context → settle → journal
//! ```
//! Reading order for users: [`Operator`], [`Controller`], [`Context`], [`Action`] and [`Fault`]. For maintainers: the
//! groups below from top to bottom. A module uses only modules above it or in its own group, and never forms a cycle.

#![deny(clippy::exit)]

// The vocabulary: objects, errors and records of what happened.
mod action;
mod admin_address;
mod error;
mod fault;
pub mod journal;
mod json_diff;
pub mod kind;
mod panics;
mod paused_time;
mod planned_calls;
pub mod queue;
mod recent_map;
mod shard_assignment;

// The exchange with the API server: objects, requests, leadership, events, permissions.
pub mod cache;
mod events;
mod fence;
mod request;
mod rights;
mod watch;

// The state that controllers share, and the context of one reconcile.
mod context;
mod shared;

// How work is found, handed out and divided among replicas.
mod election;
mod relations;
mod workers;

// How controllers are described, in three styles, and how they run.
mod controller;
pub mod handlers;
pub mod world;

// The program around the controllers.
mod admin;
mod operator;
#[cfg(feature = "otel")]
pub mod otel;
pub mod plan_command;
pub mod why;

pub use action::Action;
pub use admin::{AdminBody, AdminPages, AdminPagesContext};
pub use admin_address::AdminAddress;
pub use context::{Context, Parent, StandardStatus, condition};
pub use controller::{BuiltController, Controller};
pub use error::{BoxError, Error};
pub use events::Severity;
pub use fault::{Fault, Result, retry_after, terminal};
pub use handlers::Handlers;
pub use journal::Journal;
pub use kind::{Kind, Metadata, ObjectName, from_json};
pub use operator::{Connect, Operator, Planner, connect_client, connect_why_client};
pub use paused_time::PausedTime;
pub use planned_calls::{PlannedCall, PlannedCalls, PlannedVerb};
pub use queue::Backoff;
pub use relations::{Predicate, Selector, changed};
pub use tokio_util::sync::CancellationToken;
