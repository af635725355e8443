//! Issues certificates: `client_certificate` for users that this server knows, [`authority`] for approved requests,
//! which `certificate_request` parses and checks. [`root_ca`] tells others which authority to trust.
//!
//! **Invariant:** this module neither decides who may have a certificate nor reads or writes the store.

pub mod authority;
pub(crate) mod certificate_request;
pub(crate) mod client_certificate;
pub mod root_ca;
