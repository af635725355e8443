//! Defines the log of requests that the listener refuses before they reach the API.
//!
//! The listener and the API share it through the authenticator: the API has the audit log that implements it. Without
//! an audit log, nothing is recorded.

use std::net::IpAddr;

use homeostat_api::user_identity::Identity;
use http::{HeaderMap, Method, Request, Response, Uri};

use crate::body::Body;

/// The head of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    /// The address of the client, unless it is in this process.
    pub(crate) address: Option<IpAddr>,
}

impl<'a> RequestHead<'a> {
    /// Returns the head of a request from a client with this address.
    pub(crate) fn of<B>(request: &'a Request<B>, address: Option<IpAddr>) -> Self {
        Self { method: request.method(), uri: request.uri(), headers: request.headers(), address }
    }
}

/// Records refused requests.
pub(crate) trait RefusalLog: Send + Sync {
    /// Records a request whose sender could not be authenticated.
    fn record_unauthenticated(&self, head: RequestHead<'_>, response: &Response<Body>);

    /// Records a request that was refused because of a limit.
    fn record_limited(&self, head: RequestHead<'_>, who: &Identity, response: &Response<Body>);
}
