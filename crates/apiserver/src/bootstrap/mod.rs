//! The default objects of a new cluster.

pub mod objects;
mod roles;
mod write;

pub use objects::default_objects;
pub(crate) use write::{restore_api_server, write};
