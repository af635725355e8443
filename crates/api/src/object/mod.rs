//! Objects as the server handles them: JSON values with metadata ([`meta`]), read by dotted path (`read`), filled in as
//! Go's types are ([`fill`]), with conditions ([`conditions`]), and with limits on their depth and memory ([`depth`],
//! [`memory`]).

pub mod conditions;
pub mod depth;
pub mod fill;
pub mod memory;
pub mod meta;
pub(crate) mod read;
