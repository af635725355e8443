//! The server as a tower service: from request to response.
//!
//! The order is Kubernetes': who asks, as whom, may they, then what. In-process callers (a [`kube::Client`] on top
//! of this service) need no credentials and act as the identity the server was built with; the TLS listener puts the
//! authenticated [`Identity`] into the request's extensions.
//!
//! [`kube::Client`]: https://docs.rs/kube

use std::convert::Infallible;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use tokio::time::Instant;

use crate::auth::{Attributes, Authenticator, Authorizer, Identity, Reviewer, impersonate};
use crate::backend::{Backend, STORE_BYTES_MAX, Space};
use crate::body::Body;
use crate::bootstrap;
use crate::discovery::{self, Documents};
use crate::health;
use crate::heavy::{Heavy, Weight};
use crate::keeper::{Keeper, Notices};
use crate::kinds::core::service::SERVICE;
use crate::metrics::{self, Metrics, Noted};
use crate::negotiate::{self, Asked, Endpoint, Forms, Representation};
use crate::object::encode;
use crate::openapi;
use crate::registry::Registry;
use crate::request::{
    AnyBody, BoxError, Query, ResourcePath, Target, Verb, collect, decode_path, served, timeout,
};
use crate::resource::Resource;
use crate::status::Status;
use crate::table;
use crate::verbs::{Answer, Call, failure};

/// The Kubernetes API over a store. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
    identity: Identity,
}

struct Shared {
    backend: Arc<Backend>,
    authenticator: Arc<Authenticator>,
    metrics: Metrics,
    heavy: Heavy,
    documents: Mutex<Option<(u64, Arc<Cached>)>>,
}

/// Documents that follow from the rows of one generation.
struct Cached {
    discovery: Documents,
    openapi: openapi::Documents,
}

/// How a server is put together.
pub struct Builder {
    store: SharedStore,
    clock: Clock,
    entropy: Entropy,
    identity: Identity,
    authenticator: Option<Arc<Authenticator>>,
    root_ca: String,
    address: Option<SocketAddr>,
    store_bytes_max: usize,
}

impl Builder {
    /// The clock; the machine's by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The source of chance; the machine's by default.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Whom in-process callers act as; the administrator by default.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Who answers token reviews and issues tokens.
    #[must_use]
    pub fn authenticator(mut self, authenticator: Arc<Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// The certificate authority put into every namespace.
    #[must_use]
    pub fn root_ca(mut self, pem: impl Into<String>) -> Self {
        self.root_ca = pem.into();
        self
    }

    /// How many bytes all objects may take together, 2 GiB by default, as in etcd. Beyond it nothing can be added; what makes
    /// nothing larger still can be written, and everything can be deleted.
    #[must_use]
    pub fn store_bytes_max(mut self, bytes: usize) -> Self {
        self.store_bytes_max = bytes;
        self
    }

    /// Where the server listens, for programs that look it up; none by default.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Writes what every cluster has from the start, and gives the server and the keeper its owner must run.
    ///
    /// # Errors
    /// When the store refuses to write.
    pub fn build(self) -> BoxFuture<'static, Result<(ApiServer, Keeper), homeostat_store::Error>> {
        // Boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.start())
    }

    async fn start(self) -> Result<(ApiServer, Keeper), homeostat_store::Error> {
        let registry = Registry::new(Arc::clone(&self.store))?;
        let authenticator = self.authenticator.unwrap_or_else(|| Arc::new(Authenticator::new(self.clock)));
        let backend = Arc::new(Backend {
            authorizer: Authorizer::new(Arc::clone(&self.store)),
            store: self.store,
            clock: self.clock,
            entropy: self.entropy,
            registry,
            notices: Notices::default(),
            services: crate::kinds::core::service::allocator::Allocator::default(),
            space: Space::new(self.store_bytes_max),
            logs: std::sync::OnceLock::new(),
        });
        let born = bootstrap::objects::Config { address: self.address, ca_pem: self.root_ca };
        bootstrap::write(&backend, &born).await?;
        observe_services(&backend);
        backend.space.observe(&backend.store.snapshot());
        let keeper = Keeper::new(Arc::clone(&backend), born);
        let metrics = Metrics::new(backend.clock.now());
        let shared = Arc::new(Shared {
            backend,
            authenticator,
            metrics,
            heavy: Heavy::new(),
            documents: Mutex::new(None),
        });
        Ok((ApiServer { shared, identity: self.identity }, keeper))
    }
}

impl ApiServer {
    /// A server over this store.
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
        }
    }

    /// The same server for in-process callers who act as somebody else.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity }
    }

    /// From now on the logs of Pods on this source's node are read there. There is one source; the first counts.
    pub fn serve_logs(&self, source: Arc<dyn crate::logs::LogSource>) {
        let _ = self.shared.backend.logs.set(source);
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
        let mut noted = Noted::default();
        let mut response = match self.route(&parts, body, &mut noted).await {
            Ok(response) => response,
            Err(status) if status.is_plain => text(status.code, status.message),
            Err(status) => failure(&status, refusal_representation(&parts)),
        };
        stamp(&self.shared.backend, &parts.headers, &mut response);
        let code = response.status().as_u16();
        response.map(|body| self.shared.metrics.end(&noted, code, started.elapsed(), body))
    }

    async fn route(&self, parts: &Parts, body: AnyBody, noted: &mut Noted) -> Result<Response<Body>, Status> {
        let backend = &self.shared.backend;
        let decoded = decode_path(parts.uri.path())?;
        let target = Target::parse(&decoded);
        let query = Query::parse(parts.uri.query());
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let acting = |what: &Attributes<'_>| {
            let other = impersonate(&parts.headers, who, what, &backend.authorizer)?;
            Ok::<_, Status>(other.unwrap_or_else(|| who.clone()))
        };
        let Target::Resource(path) = target else {
            noted.path(&parts.method, &decoded);
            let verb = parts.method.as_str().to_ascii_lowercase();
            let what = Attributes::Path { verb: &verb, path: &decoded };
            backend.authorizer.check(&acting(&what)?, &what)?;
            return if target == Target::Nowhere {
                Err(Status::no_such_path())
            } else {
                self.document(parts, &decoded, who).await
            };
        };
        let verb = Verb::of(&parts.method, &path, &query);
        let judged = Verb::judged(&parts.method, &path, &query);
        let name = path.judged_name(judged, &query);
        let judged = judged.map_or("", Verb::name);
        let who = acting(&path.attributes(judged, &name))?;
        let resource = served::find(&backend.registry.table(), &path);
        if let Ok(resource) = &resource {
            noted.resource(verb, &path, resource, query.has("dryRun"));
        }
        let _under_way = self.shared.metrics.begin(verb);
        if verb != Some(Verb::Watch) {
            timeout::check(query.get("timeout"))?;
        }
        backend.authorizer.check(&who, &path.attributes(judged, &name))?;
        let resource = resource?;
        let verb = served::check(&resource, &path, &parts.method, verb)?;
        // As in Kubernetes, what comes with a request to read is not looked at; nor is it kept.
        let body = if parts.method == Method::GET { Bytes::new() } else { collect(body).await? };
        let accepted = accepted(parts, verb, &resource, &path)?;
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let call = Call {
            backend: Arc::clone(backend),
            headers: parts.headers.clone(),
            lane: self.shared.heavy.lane(user),
            is_heavy: false,
            verb,
            resource,
            path,
            query,
            who,
            accepted,
        };
        self.run(parts, call, body).await
    }

    /// Runs an authorised request, once there is room for as much work as it is.
    async fn run(&self, parts: &Parts, call: Call, body: Bytes) -> Result<Response<Body>, Status> {
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let reviewer = Reviewer {
            who: &call.who.clone(),
            authorizer: &self.shared.backend.authorizer,
            authenticator: &self.shared.authenticator,
        };
        let weight = call.weight(&body);
        if let Some(asked) = crate::verbs::Review::of(&call) {
            let answer = async { asked.answer(&call, &reviewer, &body) };
            return Ok(self.shared.heavy.run(weight, user, answer).await?.into_response());
        }
        let is_write = parts.method != Method::GET;
        let deprecation = call.resource.deprecation_warning().map(ToOwned::to_owned);
        let heavy = &self.shared.heavy;
        let weight = if is_write { heavy.weigh_write(weight, user, &call.resource) } else { weight };
        let call = Call { is_heavy: weight.is_heavy(), ..call };
        let resource = Arc::clone(&call.resource);
        let work = Box::pin(call.run(body));
        let done = if is_write {
            heavy.run_write(weight, user, &resource, work).await
        } else {
            heavy.run(weight, user, work).await
        };
        let mut response = match done {
            Ok(answer) => answer.into_response(),
            Err(status) => failure(&status, refusal_representation(parts)),
        };
        if let Some(warning) = deprecation {
            crate::verbs::warn(&mut response, &warning);
        }
        Ok(response)
    }

    /// Runs the health checks, if the path is one of theirs.
    fn probe(&self, path: &str, query: &str) -> Option<health::Answer> {
        let failure = self.shared.backend.store.check().err().map(|error| error.to_string());
        let store = health::Check { name: health::STORE, failure: failure.as_deref() };
        health::probe(path, query, &[health::PING, store])
    }

    /// Answers paths that are not resources. Some documents answer any method, as in Kubernetes.
    async fn document(&self, parts: &Parts, path: &str, who: &Identity) -> Result<Response<Body>, Status> {
        let is_schema = path.starts_with("/openapi/");
        let weight = if is_schema { self.cached().openapi.weight(path) } else { Weight::default() };
        let finding = async { self.find_document(parts, path) };
        let answer = self.shared.heavy.run(weight, who, finding).await?;
        if parts.method != Method::GET && is_for_get_alone(path) {
            return Err(Status::method_not_allowed());
        }
        Ok(answer)
    }

    /// Finds the document at a path: discovery, OpenAPI, health, metrics, version.
    fn find_document(&self, parts: &Parts, path: &str) -> Result<Response<Body>, Status> {
        if let Some(answer) = self.probe(path, parts.uri.query().unwrap_or_default()) {
            return Ok(text(answer.code, answer.text));
        }
        if path == "/metrics" {
            let Shared { metrics, authenticator, backend, .. } = &*self.shared;
            let counted = metrics::render(metrics, &authenticator.refusals, &backend.store.snapshot());
            return Ok(Answer::body(200, metrics::CONTENT_TYPE, counted.into()).into_response());
        }
        let cached = self.cached();
        if path.starts_with("/version/") && path != "/version/" {
            return Err(Status::no_such_resource());
        }
        if path == "/version" || path == "/version/" {
            return Ok(json(&health::version()));
        }
        if path == "/" || path == "/index.html" {
            return Ok(json(&cached.discovery.paths()));
        }
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let host = text_header(parts, &header::HOST).or(authority).unwrap_or_default();
        let issuer = self.shared.authenticator.issuer();
        if let Some((media, value)) = issuer.and_then(|issuer| issuer.document(path, host)) {
            return Ok(Answer::body(200, media, value.to_string().into()).into_response());
        }
        let request = discovery::Request {
            path,
            asked: asked(parts),
            if_none_match: text_header(parts, &header::IF_NONE_MATCH),
            address: text_header(parts, &header::HOST).unwrap_or_default(),
        };
        if let Some(answer) = cached.discovery.answer(&request) {
            return answer;
        }
        let request = openapi::Request {
            path,
            query: parts.uri.query().unwrap_or_default(),
            accept: request.asked.accept,
            if_none_match: request.if_none_match,
            now: self.shared.backend.clock.now(),
        };
        if let Some(answer) = cached.openapi.answer(&request) {
            return Ok(answer);
        }
        Err(Status::no_such_path())
    }

    /// The documents of the current rows.
    fn cached(&self) -> Arc<Cached> {
        let table = self.shared.backend.registry.table();
        let mut documents = self.shared.documents.lock().unwrap_or_else(PoisonError::into_inner);
        match &*documents {
            Some((generation, cached)) if *generation == table.generation => Arc::clone(cached),
            _ => {
                // What was made of the rows before is let go first: there is never need of both.
                *documents = None;
                let cached = Arc::new(Cached {
                    discovery: Documents::new(&table.rows),
                    openapi: openapi::Documents::new(&table.rows),
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

/// True of the documents that Kubernetes serves to GET only, not even to HEAD: versions of groups and of the server, and
/// the keys of tokens. The list of groups and what is about a whole group answer any method.
fn is_for_get_alone(path: &str) -> bool {
    match path.trim_matches('/').split('/').next() {
        Some("api" | "version" | "openid" | ".well-known") => true,
        Some("apis") => path.trim_matches('/').split('/').count() > 2,
        _ => false,
    }
}

/// Addresses that stored Services hold are taken.
fn observe_services(backend: &Backend) {
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&SERVICE.storage().prefix(), "") {
        backend.services.observe(&encode::decode(entry));
    }
}

/// How a refusal is shown: as asked, or as JSON when that cannot be had. It has no other form than its own, and can be
/// encoded where a custom object cannot.
fn refusal_representation(parts: &Parts) -> Representation {
    let endpoint = Endpoint { forms: Forms::Plain, is_custom: false, is_collection: true };
    negotiate::representation(&asked(parts), endpoint).unwrap_or_default()
}

/// Returns the form and encoding to answer in, or refuses a request that accepts none of those there are.
fn accepted(
    parts: &Parts,
    verb: Verb,
    resource: &Resource,
    path: &ResourcePath,
) -> Result<Representation, Status> {
    let endpoint = Endpoint {
        forms: table::forms(resource, Some(&*path.subresource).filter(|name| !name.is_empty())),
        is_custom: resource.is_custom(),
        is_collection: path.name.is_empty(),
    };
    match verb {
        Verb::Watch => negotiate::watch_representation(&asked(parts), endpoint),
        _ => negotiate::representation(&asked(parts), endpoint),
    }
}

fn asked(parts: &Parts) -> Asked<'_> {
    Asked {
        accept: text_header(parts, &header::ACCEPT),
        query: parts.uri.query().unwrap_or_default(),
        user_agent: text_header(parts, &header::USER_AGENT),
    }
}

fn text_header<'a>(parts: &'a Parts, name: &header::HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}

fn text(code: u16, text: impl Display) -> Response<Body> {
    let body = text.to_string().into();
    let mut response = Answer::body(code, "text/plain; charset=utf-8", body).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn json(value: &serde_json::Value) -> Response<Body> {
    Answer::body(200, "application/json", value.to_string().into()).into_response()
}

/// Every answer carries an audit id: the caller's, or a fresh one.
fn stamp(backend: &Backend, asked: &HeaderMap, response: &mut Response<Body>) {
    let name = header::HeaderName::from_static("audit-id");
    let id = asked
        .get(&name)
        .cloned()
        .or_else(|| HeaderValue::from_str(homeostat_core::Uid::random(&backend.entropy).as_str()).ok());
    if let Some(id) = id {
        response.headers_mut().insert(name, id);
    }
}
