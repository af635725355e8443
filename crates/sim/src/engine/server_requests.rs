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
    /// Lets the server answer.
    pub(crate) async fn serve(&mut self, mut request: Request<Bytes>) -> Response<Body> {
        // A request that brings its own audit id takes no random number, so an additional read does not change the uids of
        // later objects.
        request.headers_mut().insert("audit-id", HeaderValue::from_static("simulated"));
        match self.server.call(request.map(Full::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Lets the server answer, and reads the complete answer.
    pub(crate) async fn serve_whole(&mut self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = self.serve(request).await.into_parts();
        let whole = body.collect().await.expect("only what is passed on breaks off, and here nothing is");
        Response::from_parts(head, whole.to_bytes())
    }

    /// Answers as the server does, from memory if the same was asked before in the same state.
    pub(crate) async fn serve_remembered(&mut self, request: Request<Bytes>) -> Response<Bytes> {
        let (template, before) = (self.template, self.store.snapshot().revision());
        let question = self.server_history.question(self.now(), &request);
        // Changes that were not noted yet are not part of the question.
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

    /// Asks in somebody's name; returns the code and what was answered, without managed fields. Nobody reads what was created,
    /// replaced or deleted, so that is null.
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
