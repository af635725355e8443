//! Worlds are external resources behind any API that is not Kubernetes, which are kept in the state that objects in the
//! cluster desire.
//!
//! ```text
//! drift_and_leak_scan (lists all) ─┐
//! pushed_changes (API reports) ────┼─► queue ─► reconcile_object: get → decide_step → write ahead → take_steps
//! the object changed ──────────────┘
//! drift_and_leak_scan ─► classify_listed_resources ─► leak_suspects (age, confirmations, caps) ─► leak_sweep
//! every call ─► call_limiter (rate, in flight, breaker) ─► the API
//! ```
//! Users implement [`World`] and configure it with [`Outside`]. Reading order for maintainers: `world_trait`,
//! `decide_step` (every external write is decided there), `resource_ownership`, `reconcile_object`, `take_steps`,
//! `drift_and_leak_scan`, `pass_result`, `classify_listed_resources`, `leak_suspects` and `leak_sweep`, `inventory`.
//!
//! **Invariants.** No external resource is written without reading that same resource in the same run. Nothing is
//! created before the intent is on the server. A resource that is not known to be ours is never changed. A wrong or
//! missing response, from the external API or from the cluster, may delay a repair but cannot cause a deletion.

mod call_limiter;
mod circuit_breaker;
mod classify_listed_resources;
mod decide_step;
mod difference;
mod drift_and_leak_scan;
mod failure;
mod inventory;
mod lasting_differences;
mod leak_suspects;
mod leak_sweep;
mod outside_record;
mod owner_lookup;
mod owner_mark;
mod pass_history;
mod pass_result;
mod planned_world;
mod pushed_changes;
mod reconcile_object;
mod resource_memory;
mod resource_outcomes;
mod resource_ownership;
mod take_steps;
mod token_bucket;
mod update_attempts;
mod world_builder;
mod world_parts;
mod world_policy;
mod world_trait;

pub use difference::{Difference, compare};
pub use failure::Failure;
pub use outside_record::{OutsideRecord, OutsideRecordSpec};
pub use owner_mark::{Mark, NotAMark};
pub use world_builder::Outside;
pub use world_policy::{ApiSharing, Drift, LeakDeletionLimits, Limits, Ownership};
pub use world_trait::{Answer, Page, PushedChange, UpdateRequest, World};
