//! Creates the default objects of a new cluster.

pub mod objects;
mod roles;
mod write_default_objects;

pub use objects::default_objects;
pub(crate) use write_default_objects::{restore_api_server, write};
