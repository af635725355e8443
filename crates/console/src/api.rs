//! The API as one viewer sees it: documents, lists and watches, with that viewer's token.
//!
//! **Invariant:** it only reads. [`ViewerApi::review`] posts a question about the viewer's own rights, which changes
//! nothing.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use serde_json::Value;

use crate::console_source::{ApiAnswer, ApiRequest, ConsoleSource};

const JSON: &str = "application/json";
/// The answer that names all kinds of all groups at once.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The most bytes of one answer: a page of a list, or one event. More is an error, not a wait for memory.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A refusal of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// What a watch says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchItem {
    /// The object was created or changed.
    Set(Value),
    /// The object was deleted; its last state.
    Gone(Value),
    /// The watch ended and must begin again with a list.
    Ended(Refusal),
}

/// The API with one viewer's token.
#[derive(Clone)]
pub(crate) struct ViewerApi {
    source: Arc<dyn ConsoleSource>,
    token: String,
}

impl ViewerApi {
    pub(crate) fn new(source: Arc<dyn ConsoleSource>, token: String) -> Self {
        Self { source, token }
    }

    async fn call(&self, path: &str, accept: &'static str, review: Option<Bytes>) -> ApiAnswer {
        let request = ApiRequest { token: self.token.clone(), path: path.to_owned(), accept, review };
        self.source.call(request).await
    }

    /// Loads a document.
    pub(crate) async fn load(&self, path: &str) -> Result<Value, Refusal> {
        read_document(self.call(path, JSON, None).await).await
    }

    /// Loads the kinds of one root: `/api` or `/apis`.
    pub(crate) async fn load_discovery(&self, root: &str) -> Result<Value, Refusal> {
        read_document(self.call(root, DISCOVERY, None).await).await
    }

    /// Asks about the viewer's own rights or name.
    pub(crate) async fn review(&self, path: &str, question: &Value) -> Result<Value, Refusal> {
        read_document(self.call(path, JSON, Some(question.to_string().into())).await).await
    }

    /// Starts a watch. The stream ends after [`WatchItem::Ended`].
    pub(crate) fn watch(&self, path: String) -> BoxStream<'static, WatchItem> {
        let api = self.clone();
        let opened = async move {
            let answer = api.call(&path, JSON, None).await;
            if answer.code == 200 {
                watch_items(answer.body).left_stream()
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

    /// Opens an answer that is passed on as it is: a log.
    pub(crate) async fn open(&self, path: &str) -> ApiAnswer {
        self.call(path, "*/*", None).await
    }
}

/// Reads a whole answer as JSON.
async fn read_document(answer: ApiAnswer) -> Result<Value, Refusal> {
    let broken = |message: String| Refusal { code: 502, message };
    let (code, mut body, mut bytes) = (answer.code, answer.body, BytesMut::new());
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(broken)?);
        if bytes.len() > ANSWER_BYTES_MAX {
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

/// Splits the body of a watch into its events.
fn watch_items(
    body: BoxStream<'static, Result<Bytes, String>>,
) -> impl Stream<Item = WatchItem> + Send + 'static {
    stream::unfold(Some((body, BytesMut::new())), |state| async move {
        let (mut body, mut rest) = state?;
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1);
                match parse_event(&line) {
                    Some(item @ WatchItem::Ended(_)) => return Some((item, None)),
                    Some(item) => return Some((item, Some((body, rest)))),
                    None => continue,
                }
            }
            let message = match body.next().await {
                Some(Ok(piece)) if rest.len() + piece.len() <= ANSWER_BYTES_MAX => {
                    rest.extend_from_slice(&piece);
                    continue;
                }
                Some(Ok(_)) => "an event is too long to be shown".to_owned(),
                Some(Err(message)) => message,
                None => "the watch ended".to_owned(),
            };
            return Some((WatchItem::Ended(Refusal { code: 502, message }), None));
        }
    })
}

/// Parses one event; none for a bookmark.
fn parse_event(line: &[u8]) -> Option<WatchItem> {
    let mut event: Value = match serde_json::from_slice(line) {
        Ok(event) => event,
        Err(_) if line.trim_ascii().is_empty() => return None,
        Err(error) => {
            let message = format!("an event is not JSON: {error}");
            return Some(WatchItem::Ended(Refusal { code: 502, message }));
        }
    };
    let object = event["object"].take();
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
            let items: Vec<WatchItem> = watch_items(stream::iter(pieces).boxed()).collect().await;
            let expected = [
                WatchItem::Set(serde_json::json!({"a": 1})),
                WatchItem::Gone(serde_json::json!({"a": 2})),
                WatchItem::Ended(Refusal { code: 410, message: "old".into() }),
            ];
            assert_eq!(items, expected, "pieces of {size} bytes");
        }
    }

    #[tokio::test]
    async fn a_watch_that_just_stops_says_so() {
        let items: Vec<WatchItem> = watch_items(stream::iter([]).boxed()).collect().await;
        assert!(matches!(items.as_slice(), [WatchItem::Ended(_)]), "{items:?}");
    }
}
