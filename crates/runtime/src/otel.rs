//! Sends spans to OpenTelemetry over OTLP/HTTP: one for every reconcile, with its causes as links.
//!
//! ```no_run
//! # async fn main_() -> Result<(), homeostat_runtime::Error> {
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! let exporter = homeostat_runtime::otel::Exporter::new("web.demo.dev", "http://localhost:4318")?;
//! tracing_subscriber::registry().with(exporter.layer()).init();
//! // … run the operator …
//! exporter.shutdown().await;
//! # Ok(()) }
//! ```
//! It uses plain HTTP to a collector next to the operator, which knows where to send the spans. Sending happens in the
//! background, on the runtime in which the exporter was created, and never holds up a reconcile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use crate::error::Error;

/// The path at which OTLP/HTTP accepts spans, relative to the collector's address.
const TRACES_PATH: &str = "/v1/traces";

/// How long the collector may take to accept a batch: OTLP's own default.
const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Sends spans to a collector.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Creates an exporter for the operator with this name that sends to the collector at this address
    /// (`http://localhost:4318`). Needs a tokio runtime.
    pub fn new(service: &str, collector: &str) -> Result<Self, Error> {
        let hyper = HyperClient::with_default_connector(ANSWER_MAX, None);
        let client = OnRuntime { client: Arc::new(hyper), runtime: Handle::current() };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{}{TRACES_PATH}", collector.trim_end_matches('/')))
            .build()
            .map_err(|error| Error::Invalid(format!("spans cannot be sent to {collector}: {error}")))?;
        let resource = Resource::builder().with_service_name(service.to_owned()).build();
        Ok(Self(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// Returns the layer for the subscriber. It exports every span and event that the subscriber lets through;
    /// `reconcile` and `observe` have the debug level.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("homeostat"))
    }

    /// Sends the waiting spans and shuts down. Later spans are lost; dropping the exporter instead also loses the
    /// waiting ones.
    pub async fn shutdown(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "not every span was sent");
        }
    }
}

/// The batches are created on a thread without a tokio runtime, and hyper needs one.
#[derive(Debug)]
struct OnRuntime {
    client: Arc<HyperClient>,
    runtime: Handle,
}

impl HttpClient for OnRuntime {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move { client.send_bytes(request).await });
        Box::pin(async move { sent.await? })
    }
}
