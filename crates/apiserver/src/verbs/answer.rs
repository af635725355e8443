//! Creates responses: an object, a list or a status in the requested form and encoding, with warnings.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use homeostat_api::encode;
use homeostat_api::negotiate::{self, AnswerEncoding, ObjectForm, Representation};
use homeostat_api::protobuf::{self, ListEncoder};
use homeostat_api::response_forms::{FormRenderer, ListMeta};
use homeostat_api::status::Status;
use homeostat_store::Entry;
use http::{HeaderMap, HeaderValue, Response, header};
use serde_json::{Value, json};

use super::AuthorizedRequest;
use super::list_items::ListItems;
use crate::body::Body;
use crate::request::Verb;
use crate::stored::convert;
use crate::streams::messages::{self, LOG_PROTOCOLS, MessageForm};
use crate::streams::upgrade::Upgrade;
use crate::streams::websocket::handshake;

/// The maximum total length of all warnings in one response. Beyond that, each warning is truncated and the last ones
/// are left out, as in Kubernetes.
const WARNINGS_CHARS_MAX: usize = 4096;
/// The maximum number of warnings: some clients (such as Python's library) refuse responses with more than a hundred
/// headers.
const WARNINGS_MAX: usize = 64;
/// The maximum length of a single warning if all of them together are too long.
const WARNING_CHARS_MAX: usize = 256;

/// A client's request to receive a body as WebSocket messages.
pub(super) struct MessageHandshake {
    headers: HeaderMap,
    is_watch: bool,
}

impl MessageHandshake {
    /// Returns the subprotocol. Watches have none of their own and accept the first one that the client names, as in
    /// kube-apiserver.
    fn choose_protocol(&self) -> Result<String, String> {
        if self.is_watch {
            return Ok(handshake::first_protocol(&self.headers).to_owned());
        }
        handshake::choose_protocol(&self.headers, &LOG_PROTOCOLS).map(ToOwned::to_owned)
    }
}

impl AuthorizedRequest {
    /// Returns the handshake of a client that watches or reads a log over a WebSocket.
    pub(super) fn message_handshake(&self) -> Option<MessageHandshake> {
        if !self.can_upgrade || !handshake::is_websocket(&self.headers) {
            return None;
        }
        let headers = self.headers.clone();
        match (self.verb, &*self.path.subresource) {
            (Verb::Watch, "") => Some(MessageHandshake { headers, is_watch: true }),
            (Verb::Get, "log") => Some(MessageHandshake { headers, is_watch: false }),
            _ => None,
        }
    }
}

/// The response of a verb.
pub(crate) struct Answer {
    code: u16,
    content_type: &'static str,
    body: Body,
    warnings: Vec<String>,
    /// A complete response to send instead, which switches the protocol.
    response: Option<Box<Response<Body>>>,
}

impl Answer {
    /// Creates a response from ready bytes.
    pub(crate) fn body(code: u16, content_type: &'static str, body: Body) -> Self {
        Self { code, content_type, body, warnings: Vec::new(), response: None }
    }

    /// Creates an answer from a complete HTTP response.
    pub(super) fn response(response: Response<Body>) -> Self {
        Self { response: Some(Box::new(response)), ..Self::body(200, "", Body::Empty) }
    }

    /// Sends the body as WebSocket messages, if the client requests it.
    pub(super) fn into_messages(self, handshake: &MessageHandshake) -> Result<Self, Status> {
        let protocol = match handshake.choose_protocol() {
            Ok(protocol) => protocol,
            Err(words) => return Ok(Self::body(403, "text/plain; charset=utf-8", words.into())),
        };
        let Some(response) = handshake::accept(&handshake.headers, &protocol) else {
            return Err(Status::bad_request("the WebSocket handshake is not complete".to_owned()));
        };
        let form = if !handshake.is_watch {
            MessageForm::of_log(&protocol)
        } else if self.content_type.contains("protobuf") {
            MessageForm::Binary
        } else {
            MessageForm::TextLines
        };
        let pieces = self.body.into_pieces();
        Ok(Self::response(Upgrade::attach(response, move |connection| {
            Box::pin(messages::run(connection, pieces, form))
        })))
    }

    /// Responds with a stored object: its bytes, unless a different form is requested.
    pub(super) fn entry(call: &AuthorizedRequest, code: u16, entry: &Arc<Entry>) -> Result<Self, Status> {
        if call.wants_bytes() {
            let bytes = convert::bytes(&call.resource, entry);
            return Ok(Self::body(code, "application/json", Body::Full(bytes)));
        }
        Self::object(call, code, &convert::decode_in_version(&call.resource, entry))
    }

    /// Responds with an object that is not stored in this form.
    pub(super) fn object(call: &AuthorizedRequest, code: u16, object: &Value) -> Result<Self, Status> {
        if call.wants_bytes() {
            let bytes = encode::plain(&call.resource, object);
            return Ok(Self::body(code, "application/json", Body::Full(bytes.into())));
        }
        match call.view() {
            None => Ok(Self::value(call, code, object)),
            Some(view) => {
                let bytes = view.object(object, call.backend.clock.now())?;
                Ok(Self::formed(call, code, bytes))
            }
        }
    }

    /// Responds with the JSON bytes of a different form, in the requested encoding.
    fn formed(call: &AuthorizedRequest, code: u16, bytes: Vec<u8>) -> Self {
        if call.accepted.media != AnswerEncoding::Json || call.accepted.pretty {
            let value = serde_json::from_slice::<Value>(&bytes).expect("our own JSON");
            return Self::value(call, code, &value);
        }
        Self::body(code, "application/json", bytes.into())
    }

    /// Responds with a value, unchanged.
    pub(super) fn value(call: &AuthorizedRequest, code: u16, value: &Value) -> Self {
        Self::encoded(code, value, call.accepted)
    }

    /// Responds with a value in this encoding.
    fn encoded(code: u16, value: &Value, accepted: Representation) -> Self {
        if accepted.media == AnswerEncoding::Protobuf
            && let Some(bytes) = protobuf::encode(value)
        {
            return Self::body(code, protobuf::CONTENT_TYPE, bytes.into());
        }
        let bytes = Bytes::from(negotiate::encode(value, &accepted));
        Self::body(code, accepted.media.content_type(), Body::Full(bytes))
    }

    /// Responds with a list in a form other than that of its objects, in the requested encoding.
    pub(super) fn items(call: &AuthorizedRequest, items: ListItems) -> Result<Self, Status> {
        Ok(match call.accepted.media {
            AnswerEncoding::Json if !call.accepted.pretty => {
                Self::body(200, "application/json", items.into_body())
            }
            _ => Self::formed(call, 200, items.into_bytes()?),
        })
    }

    /// Responds with a list of stored objects as protobuf; `None` if their kind has no message. Each object is parsed
    /// when its turn comes and then dropped.
    pub(super) fn protobuf_list(
        call: &AuthorizedRequest,
        entries: &[Arc<Entry>],
        meta: &ListMeta<'_>,
    ) -> Option<Self> {
        let bytes = entries.iter().map(|entry| entry.bytes.len()).sum();
        let mut list = ListEncoder::new(&list_head(call, meta), bytes)?;
        for entry in entries {
            list.add(convert::decode_in_version(&call.resource, entry));
        }
        let pieces = list.into_pieces().into_iter().map(Bytes::from).collect();
        Some(Self::body(200, protobuf::CONTENT_TYPE, Body::Pieces(pieces)))
    }

    /// Responds with a list of objects that are not sent as stored bytes.
    pub(super) fn list(call: &AuthorizedRequest, items: Vec<Value>, meta: &ListMeta<'_>) -> Self {
        let items = items.into_iter().map(|item| without_type(call, item)).collect::<Vec<_>>();
        let mut list = list_head(call, meta);
        list["items"] = items.into();
        Self::value(call, 200, &list)
    }

    /// Adds warnings.
    pub(crate) fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Returns the response.
    pub(crate) fn into_response(self) -> Response<Body> {
        if let Some(response) = self.response {
            return *response;
        }
        let mut response = Response::new(self.body);
        *response.status_mut() = http::StatusCode::from_u16(self.code).expect("answers use real codes");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for warning in shorten_warnings(self.warnings) {
            add_warning(&mut response, &warning);
        }
        response
    }
}

impl AuthorizedRequest {
    /// Returns how to show objects in the requested form; `None` if they are shown as they are.
    pub(super) fn view(&self) -> Option<FormRenderer> {
        let subresource = Some(&*self.path.subresource).filter(|name| !name.is_empty());
        FormRenderer::new(&self.resource, subresource, self.accepted.form)
    }

    /// Returns whether the client wants plain JSON bytes.
    pub(super) fn wants_bytes(&self) -> bool {
        let is_json = match self.accepted.media {
            AnswerEncoding::Json => true,
            AnswerEncoding::Yaml => false,
            AnswerEncoding::Protobuf => self.resource.is_custom(),
        };
        self.accepted.form == ObjectForm::Object && is_json && !self.accepted.pretty
    }
}

/// Returns a list without its items.
fn list_head(call: &AuthorizedRequest, meta: &ListMeta<'_>) -> Value {
    let resource = &call.resource;
    let mut metadata = serde_json::to_value(meta).expect("a list's metadata always encodes");
    if resource.is_custom() && meta.next.is_empty() {
        metadata["continue"] = "".into();
    }
    json!({"kind": resource.list_kind(), "apiVersion": resource.api_version(), "metadata": metadata})
}

/// Removes the kind and version, which items of built-in lists do not have.
fn without_type(call: &AuthorizedRequest, mut item: Value) -> Value {
    if !call.resource.is_custom()
        && let Some(map) = item.as_object_mut()
    {
        map.remove("kind");
        map.remove("apiVersion");
    }
    item
}

/// Adds a warning to a response. As in Kubernetes, a warning with control characters is left out.
pub(crate) fn add_warning(response: &mut Response<Body>, warning: &str) {
    if warning.chars().any(char::is_control) {
        return;
    }
    let escaped = warning.replace('\\', r"\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Returns the warnings without duplicates, shortened to the limits.
fn shorten_warnings(warnings: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut kept = warnings;
    kept.retain(|warning| seen.insert(warning.clone()));
    kept.truncate(WARNINGS_MAX);
    if kept.iter().map(|warning| warning.chars().count()).sum::<usize>() <= WARNINGS_CHARS_MAX {
        return kept;
    }
    let mut written = 0;
    let shortened =
        kept.into_iter().map(|warning| warning.chars().take(WARNING_CHARS_MAX).collect::<String>());
    let is_within = |warning: &String| {
        let before = written;
        written += warning.chars().count();
        before < WARNINGS_CHARS_MAX
    };
    shortened.take_while(is_within).collect()
}

/// Prepends warnings to those of the result, be it a success or a failure.
pub(super) fn add_warnings(
    result: Result<Answer, Status>,
    mut warnings: Vec<String>,
) -> Result<Answer, Status> {
    match result {
        Ok(mut answer) => {
            warnings.append(&mut answer.warnings);
            Ok(Answer { warnings, ..answer })
        }
        Err(status) => Err(status.warned(warnings)),
    }
}

/// Returns a refusal as a response.
pub(crate) fn refusal_response(status: &Status, accepted: Representation) -> Response<Body> {
    let answer = Answer::encoded(status.code, &status.to_json(), accepted).warned(status.warnings.clone());
    let mut response = answer.into_response();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_s).filter(|after| *after > 0)
    {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
