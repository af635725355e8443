//! What a server has before anybody asked for anything: its keys, and the objects every cluster is born with.

pub mod credentials;
pub mod objects;
mod roles;

pub use credentials::{Credentials, Keep};
pub use objects::{namespace_objects, objects};
