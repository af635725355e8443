//! Objects as the server handles them: JSON values with metadata ([`meta`]), their one encoding ([`encode`]) and the
//! parsed side-structure that selectors look at ([`view`]).

pub(crate) mod conditions;
pub(crate) mod depth;
pub(crate) mod encode;
pub(crate) mod memory;
pub(crate) mod meta;
pub(crate) mod view;
