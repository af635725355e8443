//! The target of a call. Its name is the address of the call's point in a trace.

pub(crate) use homeostat_core::{RequestTarget as CallTarget, RequestVerb as CallVerb};
