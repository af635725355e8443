//! Turns a response into a connection: a handler that accepts another protocol leaves an [`Upgrade`] in its response,
//! and the TLS server runs it on the connection once the response is sent.
//!
//! The API never sees the socket before that, and the TLS server never learns which protocol it is.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use http::Response;

use super::ByteStream;
use crate::body::Body;

/// A connection whose protocol has changed.
pub(crate) type UpgradedConnection = Box<dyn ByteStream>;

type UpgradeHandler = Box<dyn FnOnce(UpgradedConnection) -> BoxFuture<'static, ()> + Send>;

/// An extension of a request whose connection can switch to another protocol. In-process requests have no connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpgradePossible;

/// An extension of a response that says what to do with the connection.
#[derive(Clone)]
pub(crate) struct Upgrade(Arc<Mutex<Option<UpgradeHandler>>>);

impl Upgrade {
    /// Attaches the handler that takes over the connection to a response. Dropping the future closes the connection.
    pub(crate) fn attach(
        mut response: Response<Body>,
        run: impl FnOnce(UpgradedConnection) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> Response<Body> {
        response.extensions_mut().insert(Self(Arc::new(Mutex::new(Some(Box::new(run))))));
        response
    }

    /// Runs the handler on the connection.
    pub(crate) async fn run(self, connection: UpgradedConnection) {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handler) = handler {
            handler(connection).await;
        }
    }
}
