//! Serves the console of an embedded control plane: its own listener on this machine, its own token, and the API in
//! process.
//!
//! **Invariant:** the console's token is valid only for this console and only while this process is running, and it
//! only allows reading. Any other token must be one that the API server accepts, and shows what its holder may read.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::{Authenticator, Identity};
use homeostat_console::{
    Activity, ApiAnswer, ApiRequest, Console, ConsoleSource, OtherOperators, is_same_token, server,
};
use homeostat_core::journal::Record;
use homeostat_core::{Clock, Entropy, Key};
use homeostat_runtime::Journal;
use homeostat_runtime::why::OperatorsClient;
use http::{Method, Request, header};
use http_body_util::{BodyStream, Full};
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::announced_operators::AnnouncedOperators;
use super::{DEFAULT_NAMESPACE, Error};

/// Whether this build has a console.
pub(super) const IS_BUILT: bool = true;

/// The number of characters in the console's token: about 165 bits, which cannot be guessed.
const TOKEN_LETTERS: usize = 32;

/// A console that has its port but does not serve yet.
pub(super) struct BoundConsole {
    listener: TcpListener,
    source: Arc<EmbeddedSource>,
    activity: Arc<Activity>,
    clock: Clock,
    url: String,
}

/// The data that the console shows.
struct EmbeddedSource {
    api: ApiServer,
    authenticator: Option<Arc<Authenticator>>,
    clock: Clock,
    token: String,
    journals: Mutex<Vec<Journal>>,
}

impl BoundConsole {
    /// Binds the port.
    pub(super) async fn bind(
        address: SocketAddr,
        api: ApiServer,
        authenticator: Option<Arc<Authenticator>>,
        clock: Clock,
        entropy: &Entropy,
    ) -> Result<Self, Error> {
        let refused = |source| Error::Console { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let token = entropy.suffix(TOKEN_LETTERS);
        let url = format!("http://{}/#token={token}", listener.local_addr().map_err(refused)?);
        let source = EmbeddedSource { api, authenticator, clock, token, journals: Mutex::default() };
        Ok(Self { listener, source: Arc::new(source), activity: Arc::default(), clock, url })
    }

    /// Returns the URL of the page, including its token.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns a handle for showing operators on this console.
    pub(super) fn operators(&self) -> ConsoleOperators {
        ConsoleOperators { source: Arc::clone(&self.source), activity: Arc::clone(&self.activity) }
    }

    /// Serves until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let console = Console::new(self.source, self.activity, self.clock, "homeostat");
        server::serve(self.listener, console, stop).await;
    }
}

/// Shows operators on a console.
#[derive(Clone)]
pub(super) struct ConsoleOperators {
    source: Arc<EmbeddedSource>,
    activity: Arc<Activity>,
}

impl ConsoleOperators {
    /// Shows the records of this journal.
    pub(super) fn show(&self, journal: Journal) {
        let activity = Arc::clone(&self.activity);
        journal.fold(move |record| activity.observe(record));
        self.source.journals.lock().unwrap_or_else(PoisonError::into_inner).push(journal);
    }
}

impl EmbeddedSource {
    /// Returns the identity of a token's holder.
    fn identity(&self, token: &str) -> Option<Identity> {
        if is_same_token(token, &self.token) {
            return Some(Identity::admin());
        }
        let accepted = self.authenticator.as_ref()?.accept(token, &[]).ok()?;
        Some(accepted.identity)
    }

    fn journals(&self) -> Vec<Journal> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ConsoleSource for EmbeddedSource {
    fn call(&self, request: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
        let Some(identity) = self.identity(&request.token) else {
            return Box::pin(async { ApiAnswer::failure(401, "this token is not valid here") });
        };
        let api = self.api.acting_as(identity);
        Box::pin(async move {
            let method = if request.review.is_some() { Method::POST } else { Method::GET };
            let call = Request::builder()
                .method(method)
                .uri(&request.path)
                .header(header::ACCEPT, request.accept)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::USER_AGENT, "homeostat-console")
                .body(Full::new(request.review.unwrap_or_default()));
            let call = match call {
                Ok(call) => call,
                Err(error) => return ApiAnswer::failure(400, error.to_string()),
            };
            let Ok(response) = api.oneshot(call).await;
            let code = response.status().as_u16();
            let pieces = BodyStream::new(response.into_body())
                .map_ok(|frame| frame.into_data().unwrap_or_else(|_| Bytes::new()));
            ApiAnswer { code, body: pieces.map_err(|error| error.to_string()).boxed() }
        })
    }

    fn records_about(&self, object: &Key) -> Vec<Record> {
        let journals = self.journals();
        let mut records: Vec<Record> = journals.iter().flat_map(|journal| journal.about(object)).collect();
        records.sort_by_key(|record| record.at);
        records
    }

    fn other_operators(&self, token: &str) -> Option<Arc<dyn OtherOperators>> {
        let client = Client::new(self.api.acting_as(self.identity(token)?), DEFAULT_NAMESPACE);
        // This server issues tokens for operators, so the viewer's own is never shown to them.
        let client = OperatorsClient::new(client, None, self.clock);
        Some(Arc::new(AnnouncedOperators { client, own: self.journals() }))
    }
}
