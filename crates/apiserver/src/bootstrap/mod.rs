//! What a server has before anybody asked for anything: its keys, and the objects every cluster is born with.

pub mod credentials;

pub use credentials::{Credentials, Keep};
