//! The web console: what is stuck and why, the story of an object, and time to rewind.
//!
//! Reading order: [`console_source`] (what it needs of its process), `console` (from request to answer),
//! `browser_defences` (the defences of a page in a browser), `api` (the API as one viewer sees it), `kinds`, `row` and
//! `condition` (objects as lines of a list), `live` (all objects and their changes), `object_story` (one object),
//! `history_window` (how far back history reaches), `redact` (what no page may show), [`activity`] (what operators are
//! doing), [`server`] (a listener of its own). The page itself is in `web`, in TypeScript; `web/dist` is what
//! `web/build.mjs` made of it.

pub mod activity;
mod api;
mod assets;
mod browser_defences;
mod condition;
mod console;
pub mod console_source;
mod event_stream_frame;
mod field;
mod history_window;
mod kinds;
mod live;
mod object_story;
mod query;
mod redact;
mod row;
pub mod server;
mod viewer;

pub use activity::Activity;
pub use console::{Console, ConsoleBody};
pub use console_source::{ApiAnswer, ApiRequest, ConsoleSource};
