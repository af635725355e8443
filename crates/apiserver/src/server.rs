//! Implements the server as a tower service: from request to response.
//!
//! The order is the same as in Kubernetes: authentication, impersonation, authorization, then the verb. In-process
//! callers (a [`kube::Client`] on top of this service) need no credentials and act as the identity that the server was
//! built with; the TLS listener puts the authenticated [`Identity`] into the request's extensions.
//!
//! [`kube::Client`]: https://docs.rs/kube

mod audience_token_endpoint;
mod authorize_and_audit;
mod builder_options;
mod document_responses;
mod fork;
mod health_checks;
mod history_endpoint;
mod in_process;
mod own_paths;
mod proxied_requests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use homeostat_api::discovery::{self, DiscoveryDocuments};
use homeostat_api::openapi;
use homeostat_api::status::Status;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use http::request::Parts;
use http::{Method, Request, Response, header};
use tokio::time::Instant;

use crate::admission::{Admission, AdmissionConfig};
use crate::audit::{AuditLog, AuditRecord, RefusalAudit};
use crate::auth::{Authenticator, Authorizer, Identity, Reviewer};
use crate::backend::{Backend, STORE_BYTES_MAX};
use crate::background::{BackgroundTasks, BackgroundWorker};
use crate::body::Body;
use crate::bootstrap;
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::root_ca::RootCa;
use crate::expensive_requests::{ExpensiveRequests, RequestCost};
use crate::metrics::{self, Metrics, RequestLabels};
use crate::request::{
    AnyBody, BoxError, PathTarget, Query, Verb, accept_headers, collect_body, decode_path,
    negotiate_representation, refusal_representation, routing, text_header, timeout, verb_of_request,
    verb_to_authorize,
};
use crate::serve::{ClientAddress, Compression, ResponseCompression, SlotHandle};
use crate::streams::upgrade::UpgradePossible;
use crate::verbs::{Answer, AuthorizedRequest, refusal_response};

use self::document_responses::{
    answers_get_only, document_cost, json_response, text_response, version_response,
};
use self::proxied_requests::proxied_request;

/// The Kubernetes API on a store. Cheap to clone.
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
    audit: Option<Arc<AuditLog>>,
    compression: Compression,
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
    root_ca: RootCa,
    address: Option<SocketAddr>,
    store_bytes_max: usize,
    admission: AdmissionConfig,
    audit: Option<Arc<AuditLog>>,
    compression: ResponseCompression,
    allows_everything: bool,
    background: BackgroundTasks,
    authority: Option<Arc<CertificateAuthority>>,
}

impl Builder {
    /// Sets the clock. The default is the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of randomness. The default is the machine's.
    #[must_use]
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the identity of in-process callers. The default is the administrator.
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

    /// Limits the total size of all objects. The default is 2 GiB, as in etcd. Beyond the limit nothing can be added;
    /// writes that do not enlarge an object and deletions are still accepted.
    #[must_use]
    pub fn store_bytes_max(mut self, bytes: usize) -> Self {
        self.store_bytes_max = bytes;
        self
    }

    /// Sets the admission plugins. The defaults are Kubernetes' own without ServiceAccount, which operator tests rarely
    /// want. A control plane for general use should use `AdmissionConfig::default()`.
    #[must_use]
    pub fn admission(mut self, plugins: AdmissionConfig) -> Self {
        self.admission = plugins;
        self
    }

    /// Sets which clients get long responses compressed. The default is clients on other machines.
    #[must_use]
    pub fn response_compression(mut self, mode: ResponseCompression) -> Self {
        self.compression = mode;
        self
    }

    /// Writes the default objects of a cluster, and returns the server and the background tasks, which the caller
    /// must run.
    ///
    /// # Errors
    ///
    /// Fails if the store refuses to write.
    pub fn build(self) -> BoxFuture<'static, Result<(ApiServer, BackgroundWorker), homeostat_store::Error>> {
        // The future is boxed here, so that it is compiled here and not in every program that starts a server.
        Box::pin(self.start())
    }

    async fn start(self) -> Result<(ApiServer, BackgroundWorker), homeostat_store::Error> {
        let authenticator = self.authenticator.unwrap_or_else(|| Arc::new(Authenticator::new(self.clock)));
        let mut backend = Backend::new(self.store, self.clock, self.entropy, self.store_bytes_max)?;
        if self.allows_everything {
            backend.authorizer = Authorizer::new(Arc::clone(&backend.store)).allowing_everything(true);
        }
        let backend = Arc::new(backend);
        let born = bootstrap::objects::BootstrapConfig { address: self.address, ca_pem: self.root_ca.pem() };
        bootstrap::write(&backend, &born).await?;
        backend.observe_services();
        backend.size.observe(&backend.store.snapshot());
        backend.seen_kinds.observe_all(&backend.store.snapshot());
        let background = BackgroundWorker::new(Arc::clone(&backend), self.background, born)
            .with_credentials(Arc::clone(&authenticator), self.authority)
            .with_root_ca(self.root_ca);
        if let Some(log) = &self.audit {
            let (clock, entropy) = (backend.clock, backend.entropy.clone());
            authenticator.record_refusals(Box::new(RefusalAudit { log: Arc::clone(log), clock, entropy }));
        }
        let metrics = Metrics::new(backend.clock.now());
        let admission = Arc::new(Admission::new(self.admission));
        let shared = Arc::new(ServerState {
            backend,
            admission,
            authenticator,
            metrics,
            expensive: ExpensiveRequests::new(),
            documents: Mutex::new(None),
            audit: self.audit,
            compression: Compression::new(self.compression),
        });
        Ok((ApiServer { shared, identity: self.identity }, background))
    }
}

impl ApiServer {
    /// Returns a builder for a server on this store.
    pub fn builder(store: SharedStore) -> Builder {
        Builder {
            store,
            clock: Clock::system(),
            entropy: Entropy::system(),
            identity: Identity::admin(),
            authenticator: None,
            root_ca: RootCa::default(),
            address: None,
            store_bytes_max: STORE_BYTES_MAX,
            admission: AdmissionConfig::without_service_accounts(),
            audit: None,
            compression: ResponseCompression::default(),
            allows_everything: false,
            background: BackgroundTasks::default(),
            authority: None,
        }
    }

    /// Handles a request. The future is boxed here, so that it is compiled here and not in every program that calls the
    /// API.
    fn answer_boxed(
        self,
        request: Request<AnyBody>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        Box::pin(async move { Ok(self.answer(request).await) })
    }

    /// Handles one request.
    async fn answer(self, request: Request<AnyBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let started = Instant::now();
        let mut labels = RequestLabels::default();
        let audit = self.begin_audit(&parts).await;
        let mut response = match self.route(&parts, body, &mut labels, audit.as_ref()).await {
            Ok(response) => response,
            Err(status) => self.refuse(&parts, &status),
        };
        self.add_audit_id(&parts, audit.as_ref(), &mut response);
        if let Some(audit) = audit {
            response = audit.complete(response).await;
        }
        let response = self.compress(&parts, response).await;
        let code = response.status().as_u16();
        response.map(|body| self.shared.metrics.end_request(&labels, code, started.elapsed(), body))
    }

    /// Compresses a long response for a remote client that accepts it.
    async fn compress(&self, parts: &Parts, response: Response<Body>) -> Response<Body> {
        let compression = &self.shared.compression;
        let address = parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address);
        if !compression.is_wanted(&parts.method, &parts.headers, address) {
            return response;
        }
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        compression.compress(response, self.shared.expensive.user_queue(who)).await
    }

    async fn route(
        &self,
        parts: &Parts,
        body: AnyBody,
        labels: &mut RequestLabels,
        audit: Option<&AuditRecord>,
    ) -> Result<Response<Body>, Status> {
        let backend = &self.shared.backend;
        let decoded = decode_path(parts.uri.path())?;
        let target = PathTarget::parse(&decoded);
        let query = Query::parse(parts.uri.query());
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        if let Some(answer) = self.answer_own_path(&decoded, parts, &query, who, audit).await {
            return answer;
        }
        let PathTarget::Resource(path) = target else {
            labels.set_path(&parts.method, &decoded);
            self.authorize_path(parts, &decoded, audit)?;
            return if target == PathTarget::Nowhere {
                Err(Status::no_such_path())
            } else {
                self.answer_document(parts, &decoded, who).await
            };
        };
        let verb = verb_of_request(&parts.method, &path, &query);
        let authorized_verb = verb_to_authorize(&parts.method, &path, &query);
        let name = path.authorized_name(authorized_verb, &query);
        let authorized_verb = authorized_verb.map_or("", Verb::name);
        let who = self.acting_user(parts, &path.attributes(authorized_verb, &name), audit)?;
        let resource = routing::find_resource(&backend.registry.table(), &path);
        if let Ok(resource) = &resource {
            labels.set_resource(verb, &path, resource, query.has("dryRun"));
        }
        let _under_way = self.shared.metrics.begin_request(verb);
        if verb != Some(Verb::Watch) {
            timeout::check_timeout(query.get("timeout"))?;
        }
        self.authorize(&who, &path.attributes(authorized_verb, &name), audit)?;
        let resource = resource?;
        let verb = routing::check_verb(&resource, &path, &parts.method, verb)?;
        // As in Kubernetes, the body of a GET is ignored; it is not kept either.
        let body = if parts.method == Method::GET { Bytes::new() } else { collect_body(body).await? };
        let proxied = proxied_request(parts, &decoded, &path);
        // The two ends negotiate the form of forwarded requests themselves.
        let accepted = match &proxied {
            Some(_) => refusal_representation(parts),
            None => negotiate_representation(parts, verb, &resource, &path)?,
        };
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let call = AuthorizedRequest {
            backend: Arc::clone(backend),
            admission: Arc::clone(&self.shared.admission),
            headers: parts.headers.clone(),
            queue: self.shared.expensive.user_queue(user),
            warnings: Arc::default(),
            slot: parts.extensions.get::<SlotHandle>().cloned(),
            can_upgrade: parts.extensions.get::<UpgradePossible>().is_some(),
            has_audit_log: self.shared.audit.is_some(),
            is_expensive: false,
            verb,
            resource,
            path,
            query,
            who,
            accepted,
            proxied,
        };
        self.run_call(parts, call, body, audit).await
    }

    /// Runs an authorized request, once there is capacity for its cost.
    async fn run_call(
        &self,
        parts: &Parts,
        call: AuthorizedRequest,
        body: Bytes,
        audit: Option<&AuditRecord>,
    ) -> Result<Response<Body>, Status> {
        let user = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        // The content of a forwarded request is between the client and the Pod.
        let audited = audit.filter(|_| call.proxied.is_none());
        let reviewer = Reviewer {
            who: &call.who.clone(),
            authorizer: &self.shared.backend.authorizer,
            authenticator: &self.shared.authenticator,
        };
        let cost = call.cost(&body);
        let cost =
            if audited.is_some_and(AuditRecord::keeps_bodies) { cost.with_copy_of_text() } else { cost };
        if let Some(asked) = crate::verbs::ReviewRequest::of_call(&call) {
            let answer = async {
                audited.inspect(|audit| audit.set_request_body(&body));
                asked.answer(&call, &reviewer, &body)
            };
            return Ok(self.shared.expensive.run(cost, user, answer).await?.into_response());
        }
        let is_write = parts.method != Method::GET && call.proxied.is_none();
        let deprecation = call.resource.deprecation_warning().map(ToOwned::to_owned);
        let expensive = &self.shared.expensive;
        let cost = if is_write { expensive.cost_of_write(cost, user, &call.resource) } else { cost };
        let call = AuthorizedRequest { is_expensive: cost.is_expensive(), ..call };
        let (resource, warnings) = (Arc::clone(&call.resource), Arc::clone(&call.warnings));
        let created = history_endpoint::CreatedBody::keep(&call, &body);
        let work = Box::pin(async move {
            audited.inspect(|audit| audit.set_request_body(&body));
            call.run(body).await
        });
        let done = if is_write {
            expensive.run_write(cost, user, &resource, work).await
        } else {
            expensive.run(cost, user, work).await
        };
        audit.inspect(|audit| audit.annotate(warnings.take_annotations()));
        let mut response = match done {
            Ok(answer) => answer.warned(warnings.take()).into_response(),
            Err(status) => {
                self.record_refusal(parts, &created.name(), &status);
                refusal_response(&status.warned(warnings.take()), refusal_representation(parts))
            }
        };
        if let Some(warning) = deprecation {
            crate::verbs::add_warning(&mut response, &warning);
        }
        Ok(response)
    }

    /// Serves paths that are not resources. As in Kubernetes, some documents are served for any method.
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
        if path == "/metrics/slis" {
            return Ok(self.indicators());
        }
        let cached = self.cached_documents();
        if path.starts_with("/version/") && path != "/version/" {
            return Err(Status::no_such_resource());
        }
        if path == "/version" || path == "/version/" {
            return version_response(parts);
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
                // Drop the documents of the previous rows first: both are never needed at the same time.
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
