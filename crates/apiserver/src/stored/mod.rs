//! Handles objects as they are stored: encoded once ([`encode`]), read in the requested version ([`convert`]), with the
//! labels and owners that selectors need ([`labels_and_owners`]), the fields that token checks need ([`token_fields`]) and
//! the EndpointSlices of a Service ([`service_slices`]).

pub(crate) mod convert;
pub(crate) mod encode;
pub(crate) mod labels_and_owners;
pub(crate) mod service_slices;
pub(crate) mod token_fields;
