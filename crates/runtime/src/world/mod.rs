//! Worlds: external resources behind any API that is not Kubernetes, kept in the state that objects in the cluster
//! desire.
//!
//! ```text
//! full_passes (list everything) ───┐                    ┌─ call_limiter (rate, in flight, breaker) ─► the API
//! pushed_changes (reported by it) ─┼─► queue ─► reconcile_object: get → decide_step → write ahead → take_steps
//! the object changed ──────────────┘
//! full_passes ─► leak_detection ─► leak_suspects (age, confirmations, caps) ─► leak_deletion
//! ```
//! Users implement [`World`] and configure its treatment with [`Outside`]. Reading order for maintainers:
//! `world_trait`, `decide_step` (every external write is decided there), `resource_ownership`, `reconcile_object`,
//! `take_steps`, `full_passes`, `pass_result`, `leak_detection`, `leak_suspects` and `leak_deletion`, `inventory`.
//!
//! **Invariants.** No external resource is written without reading that same resource in the same run. Nothing is
//! created before the intent is on the server. A resource that is not known to be ours is never changed. A wrong or
//! missing answer, from the external API or from the cluster, may delay a repair but cannot cause a deletion.

mod call_limiter;
mod circuit_breaker;
mod decide_step;
mod difference;
mod failure;
mod full_passes;
mod inventory;
mod lasting_differences;
mod leak_deletion;
mod leak_detection;
mod leak_suspects;
mod outside_record;
mod owner_lookup;
mod owner_mark;
mod pass_health;
mod pass_result;
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
pub use world_policy::{Drift, Limits, Ownership, Sweep, Use};
pub use world_trait::{Answer, Change, Page, Push, World};
