//! The Kubernetes API over a [`homeostat_store::Store`]: a tower service, plus what serves it over TLS.

pub mod field;
pub mod schema;
pub mod status;
