//! Decodes what the server sends: list pages and watch lines. An object that cannot be decoded becomes a
//! [`ReceivedObject::Undecodable`] with its name and the decoder's message; the objects around it are not affected. If
//! decoding panics, the object also counts as undecodable.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use homeostat_core::Key;
use kube::core::Status;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::{Error, Value};

use super::decode_error::explain;
use super::json_scan::{fields, first, items};
use super::trim_managed_fields::without_managed_fields;
use crate::kind::KindInfo;
use crate::kind::decoded_objects;
use crate::kind::object::Object;
use crate::panics::catch_panic;

/// The annotation on the bookmark that ends a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One received object.
#[derive(Debug)]
pub(crate) enum ReceivedObject {
    /// Decoded.
    Good { key: Key, object: Arc<Object> },
    /// Not decodable as its kind.
    Undecodable { key: Key, error: String, revision: String },
}

impl ReceivedObject {
    fn good(info: &KindInfo, object: Arc<Object>) -> Self {
        Self::Good { key: info.key_of(object.meta()), object }
    }

    fn undecodable(info: &KindInfo, identity: IdentityMeta, error: String) -> Self {
        let key = key_from(info, &identity);
        Self::Undecodable { key, error, revision: identity.resource_version }
    }

    /// Returns the object's resourceVersion.
    pub(crate) fn revision(&self) -> &str {
        match self {
            Self::Good { object, .. } => object.meta().resource_version.as_deref().unwrap_or_default(),
            Self::Undecodable { revision, .. } => revision,
        }
    }
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) items: Vec<ReceivedObject>,
    pub(crate) revision: String,
    pub(crate) continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum WatchLine {
    /// `ADDED` or `MODIFIED`. A cache that knows the previous state uses that to decide instead.
    Applied { item: ReceivedObject, is_added: bool },
    /// `DELETED`. The last state is not decoded: a cache has the previous state, and readers without a cache decode it
    /// on demand.
    Deleted { key: Key, revision: String, last: Bytes },
    /// `BOOKMARK`.
    Bookmark { revision: String, ends_initial: bool },
    /// `ERROR`.
    Error(Box<Status>),
    /// Not a watch event.
    Garbage(String),
}

/// A list whose items are decoded one by one.
#[derive(Deserialize)]
struct ListItems {
    metadata: ListMeta,
    #[serde(rename = "items")]
    _items: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// The part that every object has.
#[derive(Deserialize, Default)]
struct ObjectIdentity {
    #[serde(default)]
    metadata: IdentityMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct IdentityMeta {
    name: String,
    namespace: String,
    resource_version: String,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// Decodes a list page.
pub(crate) fn decode_page(info: &KindInfo, body: &[u8]) -> Result<ListPage, Error> {
    let text = text_of(body)?;
    let ListItems { metadata, .. } = serde_json::from_str(text)?;
    let list = fields(text, first(text)).find(|field| text[field.name.clone()] == *"\"items\"");
    let texts = list.into_iter().flat_map(|list| items(text, list.value.start));
    let items = texts.map(|item| decode_listed(info, &text[item])).collect();
    let continue_token = Some(metadata.r#continue).filter(|token| !token.is_empty());
    Ok(ListPage { items, revision: metadata.resource_version, continue_token })
}

/// Decodes one item of a list, even one without a name.
fn decode_listed(info: &KindInfo, text: &str) -> ReceivedObject {
    let nameless =
        |error: Error| ReceivedObject::undecodable(info, IdentityMeta::default(), error.to_string());
    decode_once(info, text).unwrap_or_else(nameless)
}

fn text_of(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(Error::custom)
}

fn panicked(message: &str) -> String {
    format!("decoding it panicked: {message}")
}

fn key_from(info: &KindInfo, identity: &IdentityMeta) -> Key {
    info.key(&identity.namespace.replace('/', "_"), &identity.name.replace('/', "_"))
}

/// Decodes a watch line.
pub(crate) fn decode_line(info: &KindInfo, text: &Bytes) -> WatchLine {
    match split_event(text) {
        Ok((kind, object)) => {
            event(info, &kind, object).unwrap_or_else(|error| WatchLine::Garbage(error.to_string()))
        }
        Err(error) => WatchLine::Garbage(error.to_string()),
    }
}

fn event(info: &KindInfo, kind: &str, object: Bytes) -> Result<WatchLine, Error> {
    match kind {
        "ADDED" | "MODIFIED" => {
            Ok(WatchLine::Applied { item: decode_item(info, &object)?, is_added: kind == "ADDED" })
        }
        "DELETED" => {
            let identity = serde_json::from_slice::<ObjectIdentity>(&object)?.metadata;
            let (key, revision) = (key_from(info, &identity), identity.resource_version);
            Ok(WatchLine::Deleted { key, revision, last: object })
        }
        "BOOKMARK" => {
            let identity = serde_json::from_slice::<ObjectIdentity>(&object)?.metadata;
            let ends_initial = identity.annotations.is_some_and(|all| all.contains_key(INITIAL_EVENTS_END));
            Ok(WatchLine::Bookmark { revision: identity.resource_version, ends_initial })
        }
        "ERROR" => Ok(WatchLine::Error(serde_json::from_slice(&object)?)),
        other => Ok(WatchLine::Garbage(format!("unknown event type {other:?}"))),
    }
}

/// Decodes one object as this kind, or explains why that fails. An error means that the text is not even JSON.
pub(crate) fn decode_item(info: &KindInfo, object: &[u8]) -> Result<ReceivedObject, Error> {
    decode_once(info, text_of(object)?)
}

/// Decodes a text, or returns the object if the text was decoded before and decoded objects are kept.
fn decode_once(info: &KindInfo, text: &str) -> Result<ReceivedObject, Error> {
    if let Some(known) = decoded_objects::get(info, text) {
        return Ok(ReceivedObject::good(info, known));
    }
    let received = decode_text(info, text)?;
    if let ReceivedObject::Good { object, .. } = &received {
        decoded_objects::insert(info, text, object);
    }
    Ok(received)
}

fn decode_text(info: &KindInfo, text: &str) -> Result<ReceivedObject, Error> {
    let text = without_managed_fields(text);
    let error = match catch_panic(|| (info.decode)(&text)) {
        Ok(Ok(object)) => return Ok(ReceivedObject::good(info, object)),
        Ok(Err(error)) => explain(info, &text, &error),
        Err(message) => panicked(&message),
    };
    let identity = serde_json::from_str::<ObjectIdentity>(&text)?.metadata;
    Ok(ReceivedObject::undecodable(info, identity, error))
}

/// A watch line whose fields are in an order that no server uses.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

/// Returns the type and the object of a watch line. Servers write the type first, so the object is found without
/// parsing.
fn split_event(text: &Bytes) -> Result<(Cow<'_, str>, Bytes), Error> {
    const HEAD: &[u8] = br#"{"type":""#;
    const MIDDLE: &[u8] = br#"","object":"#;
    if let Some(rest) = text.strip_prefix(HEAD)
        && let Some(end) = memchr::memchr(b'"', rest)
        && let Some(object) = rest[end..].strip_prefix(MIDDLE)
        && let Some(object) = object.trim_ascii_end().strip_suffix(b"}")
    {
        return Ok((String::from_utf8_lossy(&rest[..end]), text.slice_ref(object)));
    }
    let event: Event = serde_json::from_slice(text)?;
    Ok((event.r#type.into(), serde_json::to_vec(&event.object)?.into()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::kind::info;

    #[test]
    fn an_undecodable_object_does_not_spoil_its_page() {
        let body = json!({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [
            {"metadata": {"name": "good", "namespace": "a"}, "data": {"k": "v"}},
            {"metadata": {"name": "bad", "namespace": "a"}, "data": 7},
        ]});
        let page = decode_page(info::<ConfigMap>(), body.to_string().as_bytes()).expect("a page");
        assert_eq!((page.revision.as_str(), page.continue_token.as_deref()), ("9", Some("next")));
        assert!(
            matches!(&page.items[0], ReceivedObject::Good { key, .. } if key.as_str() == "/configmaps/a/good")
        );
        assert!(matches!(&page.items[1], ReceivedObject::Undecodable { key, error, .. }
            if key.as_str() == "/configmaps/a/bad" && error == "data: invalid type: integer `7`, expected a map"));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let line = decode_line(info::<ConfigMap>(), &Bytes::copy_from_slice(text.as_bytes()));
        let shown = match line {
            WatchLine::Applied { item: ReceivedObject::Good { key, object }, is_added } => {
                let revision = object.meta().resource_version.as_deref().unwrap_or_default();
                format!("{} {key} at {revision}", if is_added { "added" } else { "modified" })
            }
            WatchLine::Applied { item: ReceivedObject::Undecodable { key, error, revision }, .. } => {
                format!("undecodable {key} at {revision}: {error}")
            }
            WatchLine::Deleted { key, revision, last } => {
                let last = decode_item(info::<ConfigMap>(), &last).expect("it is JSON");
                assert_eq!(last.revision(), revision);
                format!("deleted {key} at {revision}")
            }
            WatchLine::Bookmark { revision, ends_initial } => format!("bookmark {revision} {ends_initial}"),
            WatchLine::Error(status) => format!("error {}", status.code),
            WatchLine::Garbage(_) => "garbage".to_owned(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn lines_of_every_sort() {
        check(
            r#"{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"4"}}}"#,
            "added configmaps/x at 4",
        );
        check(
            r#"{ "object":{"metadata":{"name":"x","resourceVersion":"4"}}, "type":"MODIFIED"}"#,
            "modified configmaps/x at 4",
        );
        check(
            r#"{"type":"ADDED","object":{"data":1,"metadata":{"name":"x","resourceVersion":"4"}}}"#,
            "undecodable configmaps/x at 4: data: invalid type: integer `1`, expected a map",
        );
        check(
            r#"{"type":"DELETED","object":{"metadata":{"name":"x","namespace":"n","resourceVersion":"5"}}}"#,
            "deleted configmaps/n/x at 5",
        );
        check(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}"#, "bookmark 6 false");
        check(
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            "bookmark 6 true",
        );
        check(
            r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}}"#,
            "error 410",
        );
        check("nonsense", "garbage");
        check(r#"{"type":"ODD","object":{}}"#, "garbage");
    }
}
