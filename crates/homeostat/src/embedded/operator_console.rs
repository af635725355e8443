//! Serves the console of an operator on a cluster, as pages on its admin server. They read the cluster with the
//! viewer's token, and the operator's activity from its own journal.
//!
//! **Invariant:** it never sends requests to the cluster with the operator's own credentials, and accepts no token that
//! the cluster does not know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use homeostat_console::{Activity, ApiAnswer, ApiRequest, Console, ConsoleSource};
use homeostat_core::Key;
use homeostat_core::journal::Record;
use homeostat_runtime::{AdminBody, AdminPages, AdminPagesContext, Journal, Operator};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyStream;
use kube::Client;
use kube::client::Body;

/// Serves the web console alongside an operator's admin pages (`--serve`, or [`Operator::serve`]). [`crate::run`] does
/// this automatically; an operator that runs on a given client also needs [`Operator::viewers_of`].
pub fn add_console(operator: Operator) -> Operator {
    operator.admin_pages(|context| {
        let AdminPagesContext { name, client, address, journal, clock } = context;
        eprintln!("console=http://{}/ (it asks for a token of the cluster)", reachable(address));
        let activity = Arc::new(Activity::default());
        let observer = Arc::clone(&activity);
        journal.fold(move |record| observer.observe(record));
        let source = ClusterSource { client, journal };
        Arc::new(ConsolePages(Console::new(Arc::new(source), activity, clock, name)))
    })
}

/// Returns the address that a browser on this machine uses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

struct ConsolePages(Console);

impl AdminPages for ConsolePages {
    fn answer(&self, request: Request<()>) -> BoxFuture<'static, Response<AdminBody>> {
        let console = self.0.clone();
        Box::pin(async move { console.answer(request.method(), request.uri(), request.headers()).await })
    }
}

/// The operator's cluster, and the operator's activity.
struct ClusterSource {
    /// Has no credentials.
    client: Client,
    journal: Journal,
}

impl ConsoleSource for ClusterSource {
    fn call(&self, request: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
        let client = self.client.clone();
        Box::pin(async move {
            let call = match cluster_request(request) {
                Ok(call) => call,
                Err(error) => return ApiAnswer::failure(400, error.to_string()),
            };
            match client.send(call).await {
                Ok(response) => {
                    let code = response.status().as_u16();
                    let pieces = BodyStream::new(response.into_body())
                        .map_ok(|frame| frame.into_data().unwrap_or_else(|_| Bytes::new()));
                    ApiAnswer { code, body: pieces.map_err(|error| error.to_string()).boxed() }
                }
                Err(error) => ApiAnswer::failure(502, format!("the cluster does not answer: {error}")),
            }
        })
    }

    fn records_about(&self, object: &Key) -> Vec<Record> {
        self.journal.about(object)
    }
}

fn cluster_request(request: ApiRequest) -> Result<Request<Body>, http::Error> {
    let method = if request.review.is_some() { Method::POST } else { Method::GET };
    let mut token = HeaderValue::try_from(format!("Bearer {}", request.token))?;
    token.set_sensitive(true);
    Request::builder()
        .method(method)
        .uri(&request.path)
        .header(header::AUTHORIZATION, token)
        .header(header::ACCEPT, request.accept)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "homeostat-console")
        .body(Body::from(request.review.unwrap_or_default().to_vec()))
}
