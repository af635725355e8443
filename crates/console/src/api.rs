//! The API as one viewer sees it: documents, lists and watches, with that viewer's token.
//!
//! **Invariant:** it only reads. [`ViewerApi::review`] posts a review of the viewer's own rights, which changes
//! nothing.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use serde_json::Value;

use crate::bounded_json::{BoundedJson, DocumentShape, FoundJson, OBJECT_LIMITS, SizeLimits};
use crate::console_source::{ApiAnswer, ApiRequest, ConsoleSource};
use crate::viewer_operators::ViewerOperators;

const JSON: &str = "application/json";
/// The media type of aggregated discovery, which lists all kinds of all groups in one response.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The maximum size of a document that is read as a whole: discovery with a few thousand kinds. Objects are read with
/// [`BoundedJson`].
const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// The number of bytes to parse before yielding: about a millisecond of work.
const PART_BYTES: usize = 256 << 10;

/// An error response from the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// An item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchItem {
    /// The object was created or changed.
    Set(Value),
    /// The object was deleted; contains its last state.
    Gone(Value),
    /// The watch ended and must begin again with a list.
    Ended(Refusal),
}

/// The API with one viewer's token.
#[derive(Clone)]
pub(crate) struct ViewerApi {
    source: Arc<dyn ConsoleSource>,
    token: String,
    operators: Option<Arc<ViewerOperators>>,
}

impl ViewerApi {
    pub(crate) fn new(source: Arc<dyn ConsoleSource>, token: String) -> Self {
        Self { source, token, operators: None }
    }

    /// Adds the operators of other processes, as this viewer sees them.
    pub(crate) fn with_operators(mut self, operators: Option<Arc<ViewerOperators>>) -> Self {
        self.operators = operators;
        self
    }

    /// Returns the operators of other processes; `None` if there are none to ask.
    pub(crate) fn operators(&self) -> Option<Arc<ViewerOperators>> {
        self.operators.clone()
    }

    async fn call(&self, path: &str, accept: &'static str, review: Option<Bytes>) -> ApiAnswer {
        let request = ApiRequest { token: self.token.clone(), path: path.to_owned(), accept, review };
        self.source.call(request).await
    }

    /// Loads a small document.
    pub(crate) async fn load(&self, path: &str) -> Result<Value, Refusal> {
        read_document(self.call(path, JSON, None).await).await
    }

    /// Loads the part of an object that the console shows.
    pub(crate) async fn load_object(&self, path: &str) -> Result<Value, Refusal> {
        let answer = self.call(path, JSON, None).await;
        read_bounded(answer, DocumentShape::Object, OBJECT_LIMITS, |_| ()).await
    }

    /// Loads a page of a list: `each` gets the objects as they arrive. Returns the list's metadata.
    pub(crate) async fn load_list(
        &self,
        path: &str,
        limits: SizeLimits,
        each: impl FnMut(Value) + Send,
    ) -> Result<Value, Refusal> {
        let answer = self.call(path, JSON, None).await;
        let mut list = read_bounded(answer, DocumentShape::List, limits, each).await?;
        Ok(list.get_mut("metadata").map(Value::take).unwrap_or_default())
    }

    /// Loads the kinds of one root: `/api` or `/apis`.
    pub(crate) async fn load_discovery(&self, root: &str) -> Result<Value, Refusal> {
        read_document(self.call(root, DISCOVERY, None).await).await
    }

    /// Asks the server about the viewer's own rights or name.
    pub(crate) async fn review(&self, path: &str, question: &Value) -> Result<Value, Refusal> {
        read_document(self.call(path, JSON, Some(question.to_string().into())).await).await
    }

    /// Starts a watch. The stream ends after [`WatchItem::Ended`].
    pub(crate) fn watch(&self, path: String, limits: SizeLimits) -> BoxStream<'static, WatchItem> {
        let api = self.clone();
        let opened = async move {
            let answer = api.call(&path, JSON, None).await;
            if answer.code == 200 {
                watch_items(answer.body, limits).left_stream()
            } else {
                let refusal = match read_document(answer).await {
                    Err(refusal) => refusal,
                    Ok(_) => Refusal { code: 502, message: "the server did not answer the watch".into() },
                };
                stream::iter([WatchItem::Ended(refusal)]).right_stream()
            }
        };
        stream::once(opened).flatten().boxed()
    }

    /// Opens a response that is passed on unchanged: a log.
    pub(crate) async fn open(&self, path: &str) -> ApiAnswer {
        self.call(path, "*/*", None).await
    }
}

/// Reads a whole response as JSON.
async fn read_document(answer: ApiAnswer) -> Result<Value, Refusal> {
    let broken = |message: String| Refusal { code: 502, message };
    let (code, mut body, mut bytes) = (answer.code, answer.body, BytesMut::new());
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(broken)?);
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(broken("the answer is too long to be shown".to_owned()));
        }
    }
    let document: Result<Value, _> = serde_json::from_slice(&bytes);
    if (200..300).contains(&code) {
        return document.map_err(|error| broken(format!("the server's answer is not JSON: {error}")));
    }
    let message = document.ok().and_then(|status| status["message"].as_str().map(ToOwned::to_owned));
    Err(Refusal { code, message: message.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()) })
}

/// Reads a response object by object, and returns the document around them.
async fn read_bounded(
    answer: ApiAnswer,
    shape: DocumentShape,
    limits: SizeLimits,
    mut each: impl FnMut(Value) + Send,
) -> Result<Value, Refusal> {
    if answer.code != 200 {
        let nothing = Refusal { code: 502, message: "the server answered without the document".into() };
        return Err(read_document(answer).await.err().unwrap_or(nothing));
    }
    let broken = |message: String| Refusal { code: 502, message };
    let (mut reader, mut body, mut document) = (BoundedJson::new(shape, limits), answer.body, None);
    while let Some(piece) = body.next().await {
        let mut found = |found| match found {
            FoundJson::Item(object) => each(object),
            FoundJson::Document(whole) => document = Some(whole),
        };
        for part in piece.map_err(broken)?.chunks(PART_BYTES) {
            reader.push(part, &mut found).map_err(broken)?;
            // A response from this process is available immediately: yield, so that other tasks need not wait until all
            // of it is read.
            tokio::task::yield_now().await;
        }
    }
    document.ok_or_else(|| broken("the server's answer ended early".to_owned()))
}

/// Splits the body of a watch into its events.
fn watch_items(
    body: BoxStream<'static, Result<Bytes, String>>,
    limits: SizeLimits,
) -> impl Stream<Item = WatchItem> + Send + 'static {
    let state =
        WatchReader { body, reader: BoundedJson::new(DocumentShape::Event, limits), rest: Bytes::new() };
    stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        let item = state.next_item().await;
        let is_last = matches!(item, WatchItem::Ended(_));
        Some((item, (!is_last).then_some(state)))
    })
}

/// Reads the events of a watch.
struct WatchReader {
    body: BoxStream<'static, Result<Bytes, String>>,
    reader: BoundedJson,
    /// Bytes received but not read yet.
    rest: Bytes,
}

impl WatchReader {
    async fn next_item(&mut self) -> WatchItem {
        loop {
            // Reads line by line, so that at most one decoded event is in memory.
            while !self.rest.is_empty() {
                let end =
                    self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |end| end + 1);
                let line = self.rest.split_to(end.min(PART_BYTES));
                let mut event = None;
                let read = self.reader.push(&line, &mut |found| {
                    if let FoundJson::Document(document) = found {
                        event = Some(document);
                    }
                });
                if let Err(message) = read {
                    return WatchItem::Ended(Refusal { code: 502, message });
                }
                if let Some(item) = event.and_then(watch_item) {
                    return item;
                }
                tokio::task::yield_now().await;
            }
            let message = match self.body.next().await {
                Some(Ok(piece)) => {
                    self.rest = piece;
                    continue;
                }
                Some(Err(message)) => message,
                None => "the watch ended".to_owned(),
            };
            return WatchItem::Ended(Refusal { code: 502, message });
        }
    }
}

/// Returns the item for an event; `None` for a bookmark.
fn watch_item(mut event: Value) -> Option<WatchItem> {
    let object = event.get_mut("object").map(Value::take).unwrap_or_default();
    match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => Some(WatchItem::Set(object)),
        Some("DELETED") => Some(WatchItem::Gone(object)),
        Some("ERROR") => Some(WatchItem::Ended(Refusal {
            code: object["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(500),
            message: object["message"].as_str().unwrap_or_default().to_owned(),
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watch_is_split_wherever_its_pieces_end() {
        let text = "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n\
                    {\"type\":\"DELETED\",\"object\":{\"a\":2}}\n{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"old\"}}\n";
        for size in [1, 7, 1000] {
            let pieces: Vec<_> =
                text.as_bytes().chunks(size).map(|piece| Ok(Bytes::from(piece.to_vec()))).collect();
            let items: Vec<WatchItem> =
                watch_items(stream::iter(pieces).boxed(), OBJECT_LIMITS).collect().await;
            let expected = [
                WatchItem::Set(serde_json::json!({"a": 1})),
                WatchItem::Gone(serde_json::json!({"a": 2})),
                WatchItem::Ended(Refusal { code: 410, message: "old".into() }),
            ];
            assert_eq!(items, expected, "pieces of {size} bytes");
        }
    }

    #[tokio::test]
    async fn a_watch_that_breaks_off_reports_its_end() {
        let items: Vec<WatchItem> = watch_items(stream::iter([]).boxed(), OBJECT_LIMITS).collect().await;
        assert!(matches!(items.as_slice(), [WatchItem::Ended(_)]), "{items:?}");
    }
}
