//! Parses requests: the path, the options, the body, and the forms of response that it accepts.

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
// The server uses the same verbs as all other code that reads requests.
pub(crate) use homeostat_core::RequestVerb as Verb;
pub(crate) use verb::{verb_of_request, verb_to_authorize};
