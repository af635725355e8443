//! The web console: shows what is stuck and why, tells the story of an object, and rewinds time.
//!
//! Reading order: [`console_source`] (what it needs from its process), `routes` (from request to response),
//! `browser_defences` (the defences of a page in a browser), `api` (the API as one viewer sees it) and `bounded_json`
//! (how much of an object is read), `kinds`, `row` and `object_health` (objects as lines of a list), `live` (all objects
//! and their changes), `object_story` (one object), `object_access_check` (which records a viewer may read), `history_window`
//! (how far back history reaches), `recording` (a failing simulation instead of a cluster), `redact` (what no page may
//! show), `viewer_operators`, `repeated_question` and `other_journals` (the operators of other processes), [`server`] and `connections` (a listener of its own). The page
//! itself is in `web`, in TypeScript; `web/build.mjs` builds it into `web/dist`.

mod api;
mod assets;
mod bounded_json;
mod browser_defences;
mod connections;
pub mod console_source;
mod event_stream_frame;
mod field;
mod history_window;
mod kinds;
mod live;
mod object_access_check;
mod object_health;
mod object_story;
mod other_journals;
mod query;
mod recording;
mod redact;
mod repeated_question;
mod routes;
mod row;
pub mod server;
mod viewer_login;
mod viewer_operators;

pub use console_source::{ApiAnswer, ApiRequest, ConsoleSource, OtherOperators};
pub use homeostat_core::activity::Activity;
pub use recording::Recording;
pub use routes::{Console, ConsoleBody, is_same_token};
