//! The console of an operator on a cluster: pages on its admin server. They read the cluster with the viewer's token,
//! the operator's activity from its own journal, and that of other operators by asking them.
//!
//! **Invariant:** it never sends requests to the cluster with the operator's own credentials, and accepts no token that
//! the cluster does not know.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use homeostat_console::{ApiAnswer, ApiRequest, Console, ConsoleSource, OtherOperators};
use homeostat_core::journal::Record;
use homeostat_core::{Clock, Key};
use homeostat_runtime::why::OperatorsClient;
use homeostat_runtime::{AdminAddress, AdminBody, AdminPages, AdminPagesContext, Journal, Operator};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyStream;
use kube::Client;
use kube::client::Body;

use super::announced_operators::AnnouncedOperators;

/// Serves the web console alongside an operator's admin pages (`--serve`, or [`Operator::serve`]). [`crate::run`] does
/// this automatically; an operator that runs on a given client also needs [`Operator::viewers_of`].
pub fn add_console(operator: Operator) -> Operator {
    operator.admin_pages(|context| {
        let AdminPagesContext { name, client, address, announced, journal, activity, clock } = context;
        eprintln!("console=http://{}/ (it asks for a token of the cluster)", reachable(address));
        let source = ClusterSource { client, announced, journal, clock };
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
    announced: Option<AdminAddress>,
    journal: Journal,
    clock: Clock,
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

    fn other_operators(&self, token: &str) -> Option<Arc<dyn OtherOperators>> {
        let client = client_of_viewer(self.client.clone(), bearer(token).ok()?);
        // In a Pod, processes of the same user are other containers, which must not get the viewer's token.
        let is_in_pod = self.announced.as_ref().is_some_and(AdminAddress::is_in_pod);
        let own_token = Some(token.to_owned()).filter(|_| !is_in_pod);
        let client = OperatorsClient::new(client, own_token, self.clock).except(self.announced.clone());
        Some(Arc::new(AnnouncedOperators { client, own: vec![self.journal.clone()] }))
    }
}

/// Returns a client for the cluster that acts as the viewer.
fn client_of_viewer(client: Client, token: HeaderValue) -> Client {
    let namespace = client.default_namespace().to_owned();
    let as_viewer = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(header::AUTHORIZATION, token.clone());
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(as_viewer, namespace)
}

fn bearer(token: &str) -> Result<HeaderValue, http::Error> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn cluster_request(request: ApiRequest) -> Result<Request<Body>, http::Error> {
    let method = if request.review.is_some() { Method::POST } else { Method::GET };
    Request::builder()
        .method(method)
        .uri(&request.path)
        .header(header::AUTHORIZATION, bearer(&request.token)?)
        .header(header::ACCEPT, request.accept)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "homeostat-console")
        .body(Body::from(request.review.unwrap_or_default().to_vec()))
}
