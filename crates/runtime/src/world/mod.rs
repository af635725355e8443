//! Worlds: external resources behind any API that is not Kubernetes, kept in the state that objects in the cluster
//! desire.
//!
//! ```text
//! patrol (list everything) ─┐                     ┌─ limiter (rate, in flight, breaker) ─► the API
//! push (told of changes)   ─┼─► the queue ─► reconcile: get → decide → write ahead → act
//! the object changed       ─┘                     └─ leak_suspects (age, confirmations, caps) ─► sweep
//! ```
//! Users implement [`World`] and configure its treatment with [`Outside`]. Reading order for maintainers: `contract`,
//! `decide` (every write outside is decided there), `reconcile`, `take_steps`, `pass_result` and `leak_suspects`,
//! `patrol` and `leak_deletion`, `inventory`.
//!
//! **Invariants.** No external resource is written without reading that same resource in the same run. Nothing is
//! created before the intent is on the server. A resource that is not known to be ours is never changed. A wrong or
//! missing answer, from the external API or from the cluster, may delay a repair but cannot cause a deletion.

mod attempts;
mod breaker;
mod contract;
mod decide;
mod difference;
mod failure;
mod health;
mod inventory;
mod lasting_differences;
mod leak_deletion;
mod leak_detection;
mod leak_suspects;
mod ledger;
mod limiter;
mod owner_lookup;
mod owner_mark;
mod pass_result;
mod patrol;
mod pushed_changes;
mod reconcile;
mod record;
mod resource_outcomes;
mod resource_ownership;
mod take_steps;
mod token_bucket;
mod world_builder;
mod world_parts;
mod world_policy;

pub use contract::{Answer, Change, Page, Push, World};
pub use difference::{Difference, compare};
pub use failure::Failure;
pub use owner_mark::{Mark, NotAMark};
pub use record::{OutsideRecord, OutsideRecordSpec};
pub use world_builder::Outside;
pub use world_policy::{Drift, Limits, Ownership, Sweep, Use};
