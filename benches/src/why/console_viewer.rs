//! A console with one page open: the page Now, which shows every change of every object and what the operator does.
//!
//! The console runs in this process and calls the server directly, like that of `homeostat up --console`; the viewer
//! reads its stream to the end and draws nothing, because that is the browser's work on another machine.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{StreamExt as _, TryStreamExt as _};
use homeostat_apiserver::ApiServer;
use homeostat_console::{Activity, ApiAnswer, ApiRequest, Console, ConsoleSource};
use homeostat_core::journal::Record;
use homeostat_core::{Clock, Key};
use homeostat_runtime::Journal;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, BodyStream, Full};
use tower::ServiceExt as _;

use crate::Outcome;

/// The server and the operator of this process.
struct BenchSource {
    server: ApiServer,
    journal: Journal,
}

impl ConsoleSource for BenchSource {
    fn call(&self, request: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
        let server = self.server.clone();
        Box::pin(async move {
            let method = if request.review.is_some() { Method::POST } else { Method::GET };
            let call = Request::builder()
                .method(method)
                .uri(&request.path)
                .header(header::ACCEPT, request.accept)
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(request.review.unwrap_or_default()));
            let call = match call {
                Ok(call) => call,
                Err(error) => return ApiAnswer::failure(400, error.to_string()),
            };
            let answer: Result<_, Infallible> = server.oneshot(call).await;
            let Ok(response) = answer;
            let code = response.status().as_u16();
            let pieces = BodyStream::new(response.into_body())
                .map_ok(|frame| frame.into_data().unwrap_or_else(|_| Bytes::new()));
            ApiAnswer { code, body: pieces.map_err(|error| error.to_string()).boxed() }
        })
    }

    fn records_about(&self, object: &Key) -> Vec<Record> {
        self.journal.about(object)
    }
}

/// Opens the page and returns what reads it, for as long as it is polled. The page is open when this returns.
pub(super) async fn open_page(
    server: ApiServer,
    journal: Journal,
) -> Outcome<impl Future<Output = u64> + Send + 'static> {
    let activity: Arc<Activity> = Arc::default();
    let observing = Arc::clone(&activity);
    journal.fold(move |record| observing.observe(record));
    let console = Console::new(Arc::new(BenchSource { server, journal }), activity, Clock::system(), "bench");
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1"));
    headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer bench"));
    let response = console.answer(&Method::GET, &Uri::from_static("/api/now"), &headers).await;
    if response.status() != 200 {
        return Err(format!("the console answered {}", response.status()).into());
    }
    let mut body = response.into_body();
    // The first frame greets the viewer.
    let Some(Ok(_)) = body.frame().await else { return Err("the console said nothing".into()) };
    Ok(async move {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        bytes
    })
}
