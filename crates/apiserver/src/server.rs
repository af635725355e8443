//! The server as a tower service: from request to response.
//!
//! The order is that of Kubernetes: authentication, impersonation, authorization, then the verb. In-process callers
//! (a [`kube::Client`] on top of this service) need no credentials and act as the identity that the server was built
//! with; the TLS listener puts the authenticated [`Identity`] into the request's extensions.
//!
//! [`kube::Client`]: https://docs.rs/kube

mod fork;
mod history;
mod in_process;

use std::convert::Infallible;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use homeostat_api::discovery::{self, DiscoveryDocuments};
use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::openapi;
use homeostat_api::status::Status;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use tokio::time::Instant;

use crate::admission::{Admission, AdmissionConfig};
use crate::auth::{Authenticator, Authorizer, Identity, RequestAttributes, Reviewer, impersonate};
use crate::backend::{Backend, STORE_BYTES_MAX, StoreSize};
use crate::background::BackgroundWorker;
use crate::background_notices::Notices;
use crate::body::Body;
use crate::bootstrap;
use crate::expensive::{EXPENSIVE_BYTES, ExpensiveRequests, RequestCost};
use crate::health;
use crate::metrics::{self, Metrics, RequestLabels};
use crate::registry::Registry;
use crate::request::{
    AnyBody, BoxError, PathTarget, Query, Verb, accept_headers, collect_body, decode_path,
    negotiate_representation, refusal_representation, routing, text_header, timeout,
};
use crate::serve::SlotHandle;
use crate::stored::encode;
use crate::verbs::{Answer, Call, refusal_response};
use crate::write_history::WriteHistory;

/// The Kubernetes API over a store. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<ServerState>,
    identity: Identity,
}

struct ServerState {
    backend: Arc<Backend>,
    admission: Arc<Admission>,
    authenticator: Arc<Authenticator>,
    metrics: Metrics,
    expensive: ExpensiveRequests,
    documents: Mutex<Option<(u64, Arc<CachedDocuments>)>>,
}

/// Documents derived from the rows of one generation.
struct CachedDocuments {
    discovery: DiscoveryDocuments,
    openapi: openapi::OpenApiDocuments,
}

/// Builds a server.
pub struct Builder {
    store: SharedStore,
    clock: Clock,
    entropy: Entropy,
    identity: Identity,
    authenticator: Option<Arc<Authenticator>>,
    root_ca: String,
    address: Option<SocketAddr>,
    store_bytes_max: usize,
    admission: AdmissionConfig,
}

impl Builder {
    /// Sets the clock; the machine's by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of randomness; the machine's by default.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the identity of in-process callers; the administrator by default.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Sets the authenticator that answers token reviews and issues tokens.
    #[must_use]
    pub fn authenticator(mut self, authenticator: Arc<Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Sets the certificate authority that is written into every namespace.
    #[must_use]
    pub fn root_ca(mut self, pem: impl Into<String>) -> Self {
        self.root_ca = pem.into();
        self
    }

    /// Limits the total size of all objects; 2 GiB by default, as in etcd. Beyond it nothing can be added; writes
    /// that do not enlarge an object and deletions are still accepted.
    #[must_use]
    pub fn store_bytes_max(mut self, bytes: usize) -> Self {
        self.store_bytes_max = bytes;
        self
    }

    /// Sets the admission plugins. By default they are those of Kubernetes, except that Pods get no ServiceAccount:
    /// tests of operators rarely want one. A control plane for general use should have `AdmissionConfig::default()`.
    #[must_use]
    pub fn admission(mut self, plugins: AdmissionConfig) -> Self {
        self.admission = plugins;
        self
    }

    /// Sets the address on which the server listens, for programs that look it up; none by default.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Writes the default objects of a cluster, and returns the server and the background tasks that its owner must
    /// run.
    ///
    /// # Errors
    ///
    /// Fails if the store refuses to write.
    pub fn build(self) -> BoxFuture<'static, Result<(ApiServer, BackgroundWorker), homeostat_store::Error>> {
        // Boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.start())
    }

    async fn start(self) -> Result<(ApiServer, BackgroundWorker), homeostat_store::Error> {
        let registry = Registry::new(Arc::clone(&self.store))?;
        let authenticator = self.authenticator.unwrap_or_else(|| Arc::new(Authenticator::new(self.clock)));
        let backend = Arc::new(Backend {
            authorizer: Authorizer::new(Arc::clone(&self.store)),
            store: self.store,
            clock: self.clock,
            entropy: self.entropy,
            registry,
            notices: Notices::default(),
            services: homeostat_api::kinds::core::service::cluster_ip_allocator::ServiceAllocator::default(),
            size: StoreSize::new(self.store_bytes_max),
            logs: std::sync::OnceLock::new(),
            writes: WriteHistory::default(),
        });
        let born = bootstrap::objects::Config { address: self.address, ca_pem: self.root_ca };
        bootstrap::write(&backend, &born).await?;
        observe_services(&backend);
        backend.size.observe(&backend.store.snapshot());
        let background = BackgroundWorker::new(Arc::clone(&backend), born);
        let metrics = Metrics::new(backend.clock.now());
        let admission = Arc::new(Admission::new(self.admission));
        let shared = Arc::new(ServerState {
            backend,
            admission,
            authenticator,
            metrics,
            expensive: ExpensiveRequests::new(),
            documents: Mutex::new(None),
        });
        Ok((ApiServer { shared, identity: self.identity }, background))
    }
}

impl ApiServer {
    /// Returns a builder for a server over this store.
    pub fn builder(store: SharedStore) -> Builder {
        Builder {
            store,
            clock: Clock::system(),
            entropy: Entropy::system(),
            identity: Identity::admin(),
            authenticator: None,
            root_ca: String::new(),
            address: None,
            store_bytes_max: STORE_BYTES_MAX,
            admission: AdmissionConfig::without_service_accounts(),
        }
    }

    /// Boxed here, so that it is compiled here and not in every program that calls the API.
    fn answer_boxed(
        self,
        request: Request<AnyBody>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        Box::pin(async move { Ok(self.answer(request).await) })
    }

    /// Answers one request.
    async fn answer(self, request: Request<AnyBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let started = Instant::now();
        let mut labels = RequestLabels::default();
        let mut response = match self.route(&parts, body, &mut labels).await {
            Ok(response) => response,
            Err(status) => self.refuse(&parts, &status),
        };
        add_audit_id(&self.shared.backend, &parts.headers, &mut response);
        let code = response.status().as_u16();
        response.map(|body| self.shared.metrics.end_request(&labels, code, started.elapsed(), body))
    }

    async fn route(
        &self,
        parts: &Parts,
        body: AnyBody,
        labels: &mut RequestLabels,
    ) -> Result<Response<Body>, Status> {
        let backend = &self.shared.backend;
        let decoded = decode_path(parts.uri.path())?;
        let target = PathTarget::parse(&decoded);
        let query = Query::parse(parts.uri.query());
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let acting = |what: &RequestAttributes<'_>| {
            let other = impersonate(&parts.headers, who, what, &backend.authorizer)?;
            Ok::<_, Status>(other.unwrap_or_else(|| who.clone()))
        };
        if decoded == crate::write_history::PATH {
            // States are parsed and compared: never on a thread that serves.
            let cost = RequestCost { bytes: EXPENSIVE_BYTES, memory: EXPENSIVE_BYTES };
            let queue = self.shared.expensive.user_queue(who);
            return queue.make(cost, || self.answer_history(parts, &query, who)).await;
        }
        let PathTarget::Resource(path) = target else {
            labels.set_path(&parts.method, &decoded);
            let verb = parts.method.as_str().to_ascii_lowercase();
            let what = RequestAttributes::Path { verb: &verb, path: &decoded };
            backend.authorizer.authorize(&acting(&what)?, &what)?;
            return if target == PathTarget::Nowhere {
                Err(Status::no_such_path())
            } else {
                self.answer_document(parts, &decoded, who).await
            };
        };
        let verb = Verb::of_request(&parts.method, &path, &query);
        let authorized_verb = Verb::to_authorize(&parts.method, &path, &query);
        let name = path.authorized_name(authorized_verb, &query);
        let authorized_verb = authorized_verb.map_or("", Verb::name);
        let who = acting(&path.attributes(authorized_verb, &name))?;
        let resource = routing::find_resource(&backend.registry.table(), &path);
        if let Ok(resource) = &resource {
            labels.set_resource(verb, &path, resource, query.has("dryRun"));
        }
        let _under_way = self.shared.metrics.begin_request(verb);
        if verb != Some(Verb::Watch) {
            timeout::check_timeout(query.get("timeout"))?;
        }
        backend.authorizer.authorize(&who, &path.attributes(authorized_verb, &name))?;
        let resource = resource?;
        let verb = routing::check_verb(&resource, &path, &parts.method, verb)?;
        // As in Kubernetes, the body of a GET is ignored; it is not kept either.
        let body = if parts.method == Method::GET { Bytes::new() } else { collect_body(body).await? };
        let accepted = negotiate_representation(parts, verb, &resource, &path)?;
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let call = Call {
            backend: Arc::clone(backend),
            admission: Arc::clone(&self.shared.admission),
            headers: parts.headers.clone(),
            queue: self.shared.expensive.user_queue(user),
            warnings: Arc::default(),
            slot: parts.extensions.get::<SlotHandle>().cloned(),
            is_expensive: false,
            verb,
            resource,
            path,
            query,
            who,
            accepted,
        };
        self.run_call(parts, call, body).await
    }

    /// Runs an authorized request, once there is capacity for its cost.
    async fn run_call(&self, parts: &Parts, call: Call, body: Bytes) -> Result<Response<Body>, Status> {
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let reviewer = Reviewer {
            who: &call.who.clone(),
            authorizer: &self.shared.backend.authorizer,
            authenticator: &self.shared.authenticator,
        };
        let cost = call.cost(&body);
        if let Some(asked) = crate::verbs::ReviewRequest::of_call(&call) {
            let answer = async { asked.answer(&call, &reviewer, &body) };
            return Ok(self.shared.expensive.run(cost, user, answer).await?.into_response());
        }
        let is_write = parts.method != Method::GET;
        let deprecation = call.resource.deprecation_warning().map(ToOwned::to_owned);
        let expensive = &self.shared.expensive;
        let cost = if is_write { expensive.cost_of_write(cost, user, &call.resource) } else { cost };
        let call = Call { is_expensive: cost.is_expensive(), ..call };
        let (resource, warnings) = (Arc::clone(&call.resource), Arc::clone(&call.warnings));
        let work = Box::pin(call.run(body));
        let done = if is_write {
            expensive.run_write(cost, user, &resource, work).await
        } else {
            expensive.run(cost, user, work).await
        };
        let mut response = match done {
            Ok(answer) => answer.warned(warnings.take()).into_response(),
            Err(status) => {
                self.record_refusal(parts, &status);
                refusal_response(&status.warned(warnings.take()), refusal_representation(parts))
            }
        };
        if let Some(warning) = deprecation {
            crate::verbs::add_warning(&mut response, &warning);
        }
        Ok(response)
    }

    /// Runs the health checks, if the path is one of theirs.
    fn probe(&self, path: &str, query: &Query) -> Option<health::ProbeAnswer> {
        let failure = self.shared.backend.store.check().err().map(|error| error.to_string());
        let store = health::HealthCheck { name: health::STORE, failure: failure.as_deref() };
        health::probe(path, query, &[health::PING, store])
    }

    /// Answers paths that are not resources. As in Kubernetes, some documents answer any method.
    async fn answer_document(
        &self,
        parts: &Parts,
        path: &str,
        who: &Identity,
    ) -> Result<Response<Body>, Status> {
        let is_schema = path.starts_with("/openapi/");
        let cost = if is_schema {
            document_cost(&self.cached_documents().openapi, path)
        } else {
            RequestCost::default()
        };
        let finding = async { self.find_document(parts, path) };
        let answer = self.shared.expensive.run(cost, who, finding).await?;
        if parts.method != Method::GET && answers_get_only(path) {
            return Err(Status::method_not_allowed());
        }
        Ok(answer)
    }

    /// Finds the document at a path: discovery, OpenAPI, health, metrics, version.
    fn find_document(&self, parts: &Parts, path: &str) -> Result<Response<Body>, Status> {
        if let Some(answer) = self.probe(path, &Query::parse(parts.uri.query())) {
            return Ok(text_response(answer.code, answer.text));
        }
        if path == "/metrics" {
            let ServerState { metrics, authenticator, backend, .. } = &*self.shared;
            let counted = metrics::render(metrics, &authenticator.refusals, &backend.store.snapshot());
            return Ok(Answer::body(200, metrics::CONTENT_TYPE, counted.into()).into_response());
        }
        let cached = self.cached_documents();
        if path.starts_with("/version/") && path != "/version/" {
            return Err(Status::no_such_resource());
        }
        if path == "/version" || path == "/version/" {
            return Ok(json_response(&health::version()));
        }
        if path == "/" || path == "/index.html" {
            return Ok(json_response(&cached.discovery.paths()));
        }
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let host = text_header(parts, &header::HOST).or(authority).unwrap_or_default();
        let issuer = self.shared.authenticator.issuer();
        if let Some((media, value)) = issuer.and_then(|issuer| issuer.document(path, host)) {
            return Ok(Answer::body(200, media, value.to_string().into()).into_response());
        }
        let request = discovery::DiscoveryRequest {
            path,
            asked: accept_headers(parts),
            if_none_match: text_header(parts, &header::IF_NONE_MATCH),
            address: text_header(parts, &header::HOST).unwrap_or_default(),
        };
        if let Some(answer) = cached.discovery.answer(&request) {
            return answer.map(|answer| answer.map(Body::from));
        }
        let request = openapi::OpenApiRequest {
            path,
            query: parts.uri.query().unwrap_or_default(),
            accept: request.asked.accept,
            if_none_match: request.if_none_match,
            now: self.shared.backend.clock.now(),
        };
        if let Some(answer) = cached.openapi.answer(&request) {
            return Ok(answer.map(Body::from));
        }
        Err(Status::no_such_path())
    }

    /// Returns the documents of the current rows.
    fn cached_documents(&self) -> Arc<CachedDocuments> {
        let table = self.shared.backend.registry.table();
        let mut documents = self.shared.documents.lock().unwrap_or_else(PoisonError::into_inner);
        match &*documents {
            Some((generation, cached)) if *generation == table.generation => Arc::clone(cached),
            _ => {
                // The documents of the previous rows are dropped first: both are never needed together.
                *documents = None;
                let cached = Arc::new(CachedDocuments {
                    discovery: DiscoveryDocuments::new(&table.rows),
                    openapi: openapi::OpenApiDocuments::new(&table.rows),
                });
                *documents = Some((table.generation, Arc::clone(&cached)));
                cached
            }
        }
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.clone().answer_boxed(request.map(AnyBody::new))
    }
}

/// Returns whether Kubernetes serves the document to GET only, not even to HEAD: versions of groups and of the
/// server, and the keys of tokens. The list of groups and the documents about a whole group answer any method.
fn answers_get_only(path: &str) -> bool {
    match path.trim_matches('/').split('/').next() {
        Some("api" | "version" | "openid" | ".well-known") => true,
        Some("apis") => path.trim_matches('/').split('/').count() > 2,
        _ => false,
    }
}

/// Takes the addresses that stored Services hold.
fn observe_services(backend: &Backend) {
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&SERVICE.storage().prefix(), "") {
        backend.services.observe(&encode::decode(entry));
    }
}

fn text_response(code: u16, text: impl Display) -> Response<Body> {
    let body = text.to_string().into();
    let mut response = Answer::body(code, "text/plain; charset=utf-8", body).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn json_response(value: &serde_json::Value) -> Response<Body> {
    Answer::body(200, "application/json", value.to_string().into()).into_response()
}

/// Gives every answer an audit id: the caller's, or a new one.
fn add_audit_id(backend: &Backend, asked: &HeaderMap, response: &mut Response<Body>) {
    let name = header::HeaderName::from_static("audit-id");
    let id = asked
        .get(&name)
        .cloned()
        .or_else(|| HeaderValue::from_str(homeostat_core::Uid::random(&backend.entropy).as_str()).ok());
    if let Some(id) = id {
        response.headers_mut().insert(name, id);
    }
}

/// Returns the cost of an OpenAPI document: building one is work, sending a finished one is not.
fn document_cost(documents: &openapi::OpenApiDocuments, path: &str) -> RequestCost {
    if documents.is_made(path) {
        RequestCost::default()
    } else {
        RequestCost { bytes: EXPENSIVE_BYTES, memory: 0 }
    }
}
