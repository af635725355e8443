//! Defines further pages for the admin server, such as a web console, from a crate that this one does not know.
//!
//! **Invariant:** such pages get a client without the operator's credentials: whoever requests a page must present a
//! token for the cluster, and sees what the server allows its holder to see.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use homeostat_core::Clock;
use homeostat_core::activity::Activity;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube::{Client, Config};

use crate::admin_address::AdminAddress;
use crate::error::Error;
use crate::journal::Journal;

/// The body of a response from the admin server.
pub type AdminBody = UnsyncBoxBody<Bytes, Infallible>;

/// Pages that the admin server serves besides its own.
pub trait AdminPages: Send + Sync {
    /// Answers a request for a path that is not one of the admin server's own.
    fn answer(&self, request: Request<()>) -> BoxFuture<'static, Response<AdminBody>>;
}

/// The things that further pages may use.
pub struct AdminPagesContext {
    /// The operator's name.
    pub name: String,
    /// A client for the operator's cluster that sends no credentials.
    pub client: Client,
    /// The address at which the pages are served.
    pub address: SocketAddr,
    /// Where the operator announces itself, if it does.
    pub announced: Option<AdminAddress>,
    /// What the operator does.
    pub journal: Journal,
    /// What it is doing now.
    pub activity: Arc<Activity>,
    /// The operator's clock.
    pub clock: Clock,
}

/// Creates the pages when the admin server starts.
pub(crate) type MakeAdminPages = Box<dyn FnOnce(AdminPagesContext) -> Arc<dyn AdminPages> + Send>;

/// Returns a client for a cluster that sends no credentials.
pub(crate) fn client_without_credentials(mut config: Config) -> Result<Client, Error> {
    config.auth_info = kube::config::AuthInfo::default();
    config.headers.clear();
    Client::try_from(config).map_err(|error| Error::NoCluster(error.to_string()))
}
