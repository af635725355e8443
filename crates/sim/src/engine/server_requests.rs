//! Sends requests to the server: for the operator, for the user, for a foreign writer.

use bytes::Bytes;
use homeostat_apiserver::body::Body;
use homeostat_store::Store;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service;

use super::notes::WriteAttribution;
use super::record::Actor;
use super::run::ScheduleRun;
use crate::object::read_object;

/// The field manager of people and other programs.
const MANAGER: &str = "somebody";

impl ScheduleRun<'_> {
    /// Sends a request to the server.
    pub(crate) async fn serve(&mut self, mut request: Request<Bytes>) -> Response<Body> {
        // A request that brings its own audit id takes no random number, so an additional read does not change the uids of
        // later objects.
        request.headers_mut().insert("audit-id", HeaderValue::from_static("simulated"));
        match self.server.call(request.map(Full::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Sends a request to the server, and reads the complete answer.
    pub(crate) async fn serve_whole(&mut self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = self.serve(request).await.into_parts();
        let whole = body.collect().await.expect("only proxied bodies break off, and none is proxied here");
        Response::from_parts(head, whole.to_bytes())
    }

    /// Returns the server's answer, from memory if the same request was sent before in the same state.
    pub(crate) async fn serve_remembered(&mut self, request: Request<Bytes>) -> Response<Bytes> {
        let (template, before) = (self.template, self.store.snapshot().revision());
        let question = self.server_history.question(self.now(), &request);
        // Changes that have not been recorded yet are not part of the question.
        let Some(question) = question.filter(|_| before == self.noted) else {
            return self.serve_whole(request).await;
        };
        if let Some(known) = template.answers.get(question)
            && self.server_history.repeat(&known, &self.store)
        {
            self.server.observe_repeated(&known.changes);
            return known.response.clone();
        }
        let asked = (&request.method().clone(), self.server_history.position());
        let response = self.serve_whole(request).await;
        let changes = self.store.changes_after(before).expect("a schedule is shorter than history");
        if let Some(answer) = self.server_history.answer(asked, response.clone(), changes) {
            template.answers.insert(question, answer);
        }
        response
    }

    /// Sends a request as this actor; returns the code and the body without managed fields. For creations, replacements
    /// and deletions the body is null, because no caller needs it.
    pub(crate) async fn ask(
        &mut self,
        actor: Actor,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let is_read = matches!(method, Method::GET | Method::PATCH);
        let manager = if method == Method::GET || method == Method::DELETE {
            String::new()
        } else {
            format!("?fieldManager={MANAGER}")
        };
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}{manager}"))
            .header("content-type", content)
            .header("accept", "application/json")
            .body(bytes)
            .expect("names of objects are valid in paths");
        let response = self.serve_remembered(request).await;
        self.note_changes(&WriteAttribution::plain(actor));
        let answer = if is_read || !response.status().is_success() {
            read_object(response.body()).unwrap_or_default()
        } else {
            Value::Null
        };
        (response.status(), answer)
    }
}
