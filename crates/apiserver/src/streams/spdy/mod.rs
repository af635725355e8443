//! Implements the server side of SPDY/3.1, as far as Kubernetes clients use it: frames and their compressed headers.
//! kubectl sends it inside a WebSocket for `port-forward`.

pub(crate) mod frame;
pub(crate) mod header_block;
