//! What the console needs from the process it runs in. The façade crate implements it, because this crate knows neither
//! the server nor the runtime.
//!
//! **Invariant:** all requests about objects go to the API with the viewer's own token, so the server's rules decide
//! what a viewer sees. The journal has no rules of its own: see `object_story` for what guards it.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use homeostat_core::Key;
use homeostat_core::activity::{ActivityReport, OperatorAnswers};
use homeostat_core::journal::Record;
use homeostat_core::write_history::OperatorJournal;

/// The process whose objects and operators the console shows.
pub trait ConsoleSource: Send + Sync + 'static {
    /// Sends a request to the API as the holder of its token.
    fn call(&self, request: ApiRequest) -> BoxFuture<'static, ApiAnswer>;

    /// Returns what the operators of this process did about an object, oldest first.
    fn records_about(&self, object: &Key) -> Vec<Record>;

    /// Returns how the operators of other processes are asked on behalf of the holder of a token; `None` if there are
    /// none.
    fn other_operators(&self, _token: &str) -> Option<Arc<dyn OtherOperators>> {
        None
    }
}

/// Asks the operators of other processes on behalf of one viewer. They check what the viewer may know.
pub trait OtherOperators: Send + Sync + 'static {
    /// Asks what they are doing. Where the viewer may not look for operators everywhere, they are looked for in
    /// `namespaces`.
    fn load_activities(
        self: Arc<Self>,
        namespaces: Vec<String>,
    ) -> BoxFuture<'static, OperatorAnswers<ActivityReport>>;

    /// Asks what they did about an object: at most this many records of each.
    fn load_journals(
        self: Arc<Self>,
        namespaces: Vec<String>,
        object: Key,
        records_max: usize,
    ) -> BoxFuture<'static, OperatorAnswers<OperatorJournal>>;
}

/// A request from the console: a GET, or a review of the viewer's own rights. The console sends nothing else.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The viewer's token.
    pub token: String,
    /// Path and query.
    pub path: String,
    /// The accepted media type.
    pub accept: &'static str,
    /// The body of a review; none for a GET.
    pub review: Option<Bytes>,
}

/// The response to an [`ApiRequest`].
pub struct ApiAnswer {
    /// The HTTP status; 502 when the server cannot be reached.
    pub code: u16,
    /// The body as it arrives.
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

impl ApiAnswer {
    /// Returns a response that reports a failure.
    pub fn failure(code: u16, message: impl Into<String>) -> Self {
        let status = serde_json::json!({"kind": "Status", "code": code, "message": message.into()});
        let bytes = Bytes::from(status.to_string());
        Self { code, body: Box::pin(futures::stream::once(async move { Ok(bytes) })) }
    }
}
