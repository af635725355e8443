//! The Database operator: a real PostgreSQL for every Database object.
//!
//! ```text
//! Database ── owns ─▶ Secret       a password, created once and kept
//!          ├─ owns ─▶ Service      a stable name
//!          └─ owns ─▶ StatefulSet ──▶ Pod: `prepare` creates the data folder, `postgres` serves it
//! ```
//! Reading order: `database` (what people write and read), `reconcile` (the loop: children, then status), `children`
//! (the desired state, built from the spec), `observe` (the actual state), `problem` (which errors are worth a retry),
//! `cleanup` (the end of the data folder), `settings` (what the operator's user decides).

mod children;
mod cleanup;
mod database;
mod observe;
mod port;
mod problem;
mod reconcile;
mod settings;

pub use database::{Database, DatabaseSpec, DatabaseStatus, DeletionPolicy};
pub use reconcile::operator;
pub use settings::Settings;
