//! What a call asks for. Its name is the address of the point in a trace.

pub(crate) use homeostat_core::{RequestTarget as CallTarget, RequestVerb as CallVerb};
