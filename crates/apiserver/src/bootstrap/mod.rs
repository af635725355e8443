//! What a server has before anybody asked for anything: its keys, and the objects every cluster is born with.

pub mod credentials;
pub mod objects;
mod roles;
mod write;

pub use credentials::{Credentials, Keep, Names};
pub use objects::objects;
pub(crate) use write::{is_api_server, restore, write};
