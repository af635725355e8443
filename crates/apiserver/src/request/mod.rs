//! What a request asks for: its path, its options and its body.

mod body;
mod path;
mod query;
pub(crate) mod served;
pub(crate) mod timeout;
mod verb;

pub(crate) use body::{AnyBody, BoxError, collect};
pub(crate) use path::{ResourcePath, Target, decode as decode_path};
pub(crate) use query::Query;
pub(crate) use verb::Verb;
