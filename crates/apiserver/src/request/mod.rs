//! What a request asks for: its path and its options.

mod path;
mod query;
pub(crate) mod served;
pub(crate) mod timeout;

pub(crate) use path::{ResourcePath, Target, decode as decode_path};
pub(crate) use query::Query;
