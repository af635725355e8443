//! Asks the server: for the operator, for the user, for somebody else.

use bytes::Bytes;
use homeostat_apiserver::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service;

use super::notes::Author;
use super::record::Actor;
use super::run::ScheduleRun;
use crate::object::read_object;

/// The field manager of people and other programs.
const MANAGER: &str = "somebody";

impl ScheduleRun<'_> {
    /// Lets the server answer.
    pub(crate) async fn serve(&mut self, request: Request<Bytes>) -> Response<Body> {
        match self.server.call(request.map(Full::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Lets the server answer, and reads the answer whole.
    pub(crate) async fn serve_whole(&mut self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = self.serve(request).await.into_parts();
        let bytes = match body.collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(never) => match never {},
        };
        Response::from_parts(head, bytes)
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
        let response = self.serve_whole(request).await;
        self.note_changes(&Author::plain(actor));
        let answer = if is_read || !response.status().is_success() {
            read_object(response.body()).unwrap_or_default()
        } else {
            Value::Null
        };
        (response.status(), answer)
    }
}
