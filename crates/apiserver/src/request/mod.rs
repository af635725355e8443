//! What a request asks for: its path and its options.

mod path;
mod query;
pub(crate) mod timeout;

pub(crate) use path::{ResourcePath, Target};
pub(crate) use query::Query;
