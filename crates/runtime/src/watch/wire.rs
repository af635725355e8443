//! What the server sends, decoded once: list pages and watch lines. An object that does not decode becomes an
//! [`Item::Poison`] with its name and the decoder's words; the objects around it are unharmed.
//!
//! The usual case costs one pass over the bytes. Only a page that holds a poison object is taken apart item by item. A type
//! that panics over an object does not decode it, either.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use homeostat_core::{Key, Revision};
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;

use super::decode::Trimmed;
use super::locate::explain;
use crate::kind::{Kind, key, key_of, parse_revision};
use crate::panics::contain;

/// The annotation on the bookmark that ends a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One object as it came. Handing it on moves two pointers, however large the object.
#[derive(Debug)]
pub(crate) enum Item<K> {
    /// Decoded.
    Good { key: Key, object: Arc<K> },
    /// Not decodable as `K`.
    Poison { key: Key, error: String, revision: String },
}

impl<K: Kind> Item<K> {
    fn good(object: K) -> Self {
        Self::Good { key: key_of(&object), object: Arc::new(object) }
    }

    fn poison(identity: IdentityMeta, error: String) -> Self {
        let key = key_from::<K>(&identity);
        Self::Poison { key, error, revision: identity.resource_version }
    }

    /// Its resourceVersion.
    pub(crate) fn revision(&self) -> &str {
        match self {
            Self::Good { object, .. } => object.meta().resource_version.as_deref().unwrap_or_default(),
            Self::Poison { revision, .. } => revision,
        }
    }
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page<K> {
    pub(crate) items: Vec<Item<K>>,
    pub(crate) revision: String,
    pub(crate) continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Line<K> {
    /// `ADDED` or `MODIFIED`. Where a cache knows what was there before, it goes by that.
    Applied { item: Item<K>, is_added: bool },
    /// `DELETED`. The last state is not decoded: a cache has the one before it, and whoever has none asks for it.
    Deleted { key: Key, revision: String, last: Bytes },
    /// `BOOKMARK`.
    Bookmark { revision: String, ends_initial: bool },
    /// `ERROR`.
    Error(Box<Status>),
    /// Not a watch event.
    Garbage(String),
}

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMeta,
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// As much of an object as every object has.
#[derive(Deserialize, Default)]
struct Identity {
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
pub(crate) fn page<K: Kind>(body: &[u8]) -> Result<Page<K>, serde_json::Error> {
    if let Ok(Ok(list)) = contain(|| serde_json::from_slice::<List<Trimmed<K>>>(body)) {
        let items =
            list.items.unwrap_or_default().into_iter().map(|Trimmed(object)| Item::good(object)).collect();
        return Ok(finish(list.metadata, items));
    }
    let list: List<Value> = serde_json::from_slice(body)?;
    Ok(finish(list.metadata, list.items.unwrap_or_default().iter().map(item).collect()))
}

fn finish<K>(meta: ListMeta, items: Vec<Item<K>>) -> Page<K> {
    let continue_token = Some(meta.r#continue).filter(|token| !token.is_empty());
    Page { items, revision: meta.resource_version, continue_token }
}

fn item<K: Kind>(value: &Value) -> Item<K> {
    let identity = Identity::deserialize(value).unwrap_or_default().metadata;
    match contain(|| Trimmed::deserialize(value)) {
        Ok(Ok(Trimmed(object))) => Item::good(object),
        Ok(Err(error)) => Item::poison(identity, explained::<K>(value, &error)),
        Err(message) => Item::poison(identity, panicked(&message)),
    }
}

/// Why an object does not decode. Finding the field decodes it again.
fn explained<K: Kind>(value: &Value, error: &serde_json::Error) -> String {
    contain(|| explain::<K>(value, error)).unwrap_or_else(|_| error.to_string())
}

fn panicked(message: &str) -> String {
    format!("its type panicked while it was decoded: {message}")
}

fn key_from<K: Kind>(identity: &IdentityMeta) -> Key {
    key::<K>(&identity.namespace.replace('/', "_"), &identity.name.replace('/', "_"))
}

/// Decodes a watch line.
pub(crate) fn line<K: Kind>(text: &Bytes) -> Line<K> {
    match split(text) {
        Ok((kind, object)) => event(&kind, object).unwrap_or_else(|error| Line::Garbage(error.to_string())),
        Err(error) => Line::Garbage(error.to_string()),
    }
}

fn event<K: Kind>(kind: &str, object: Bytes) -> Result<Line<K>, serde_json::Error> {
    match kind {
        "ADDED" | "MODIFIED" => Ok(Line::Applied { item: decode(&object)?, is_added: kind == "ADDED" }),
        "DELETED" => {
            let identity = serde_json::from_slice::<Identity>(&object)?.metadata;
            let (key, revision) = (key_from::<K>(&identity), identity.resource_version);
            Ok(Line::Deleted { key, revision, last: object })
        }
        "BOOKMARK" => {
            let identity = serde_json::from_slice::<Identity>(&object)?.metadata;
            let ends_initial = identity.annotations.is_some_and(|all| all.contains_key(INITIAL_EVENTS_END));
            Ok(Line::Bookmark { revision: identity.resource_version, ends_initial })
        }
        "ERROR" => Ok(Line::Error(serde_json::from_slice(&object)?)),
        other => Ok(Line::Garbage(format!("unknown event type {other:?}"))),
    }
}

/// Decodes one object as `K`, or says why that fails. The error is of an object that is not even JSON.
pub(crate) fn decode<K: Kind>(object: &[u8]) -> Result<Item<K>, serde_json::Error> {
    let error = match contain(|| trimmed(object)) {
        Ok(Ok(object)) => return Ok(Item::good(object)),
        Ok(Err(error)) => explained::<K>(&serde_json::from_slice(object)?, &error),
        Err(message) => panicked(&message),
    };
    let identity = serde_json::from_slice::<Identity>(object)?.metadata;
    Ok(Item::poison(identity, error))
}

/// Decodes one object. To see once that all of it is text costs less than to ask of each string.
fn trimmed<K: Kind>(object: &[u8]) -> Result<K, serde_json::Error> {
    let decoded = match std::str::from_utf8(object) {
        Ok(text) => serde_json::from_str::<Trimmed<K>>(text),
        Err(_) => serde_json::from_slice::<Trimmed<K>>(object),
    };
    decoded.map(|Trimmed(object)| object)
}

/// A watch line in an order of fields no server uses.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

/// Type and object of a watch line. Servers write the type first, so the object is found without parsing.
fn split(text: &Bytes) -> Result<(Cow<'_, str>, Bytes), serde_json::Error> {
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

/// The number in a resourceVersion the server sent.
pub(crate) fn revision(text: &str) -> Revision {
    parse_revision(Some(text))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_poison_object_does_not_spoil_its_page() {
        let body = json!({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": [
            {"metadata": {"name": "good", "namespace": "a"}, "data": {"k": "v"}},
            {"metadata": {"name": "bad", "namespace": "a"}, "data": 7},
        ]});
        let page: Page<ConfigMap> = page(body.to_string().as_bytes()).expect("a page");
        assert_eq!((page.revision.as_str(), page.continue_token.as_deref()), ("9", Some("next")));
        assert!(matches!(&page.items[0], Item::Good { key, .. } if key.as_str() == "/configmaps/a/good"));
        assert!(matches!(&page.items[1], Item::Poison { key, error, .. }
            if key.as_str() == "/configmaps/a/bad" && error == "data: invalid type: integer `7`, expected a map"));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let line: Line<ConfigMap> = line(&Bytes::copy_from_slice(text.as_bytes()));
        let shown = match line {
            Line::Applied { item: Item::Good { key, object }, is_added } => {
                let revision = object.metadata.resource_version.as_deref().unwrap_or_default();
                format!("{} {key} at {revision}", if is_added { "added" } else { "modified" })
            }
            Line::Applied { item: Item::Poison { key, error, revision }, .. } => {
                format!("poison {key} at {revision}: {error}")
            }
            Line::Deleted { key, revision, last } => {
                let last = decode::<ConfigMap>(&last).expect("it is JSON");
                assert_eq!(last.revision(), revision);
                format!("deleted {key} at {revision}")
            }
            Line::Bookmark { revision, ends_initial } => format!("bookmark {revision} {ends_initial}"),
            Line::Error(status) => format!("error {}", status.code),
            Line::Garbage(_) => "garbage".to_owned(),
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
            "poison configmaps/x at 4: data: invalid type: integer `1`, expected a map",
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
