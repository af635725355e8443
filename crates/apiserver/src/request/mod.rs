//! What a request asks for: its path, its options, its body, and the answers that it accepts.

mod accept;
mod body;
mod path;
mod query;
pub(crate) mod routing;
pub(crate) mod timeout;
mod verb;

pub(crate) use accept::{accept_headers, negotiate_representation, refusal_representation, text_header};
pub use body::BodyError;
pub(crate) use body::{AnyBody, BoxError, collect as collect_body};
pub(crate) use path::{PathTarget, ResourcePath, decode as decode_path};
pub(crate) use query::Query;
pub(crate) use verb::Verb;
