//! Decodes and encodes Kubernetes protobuf, which typed Go clients send, with a table.
//!
//! The table (`facts/protobuf.txt`) maps the field numbers of each message to JSON fields, so both directions share it
//! and no types are generated. Objects inside the server are always JSON values.
//!
//! **Invariant:** a hostile body costs at most time and memory proportional to its size. Unknown fields are skipped.

mod read;
mod table;
mod well_known;
mod wire;
mod write;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::object::memory::{MEMORY_MAX, MemoryBudget};
use crate::status::Status;
use read::ReadContext;
use table::MessageType;

/// The media type of protobuf responses.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of every body: `k8s` and a zero byte.
const MAGIC: [u8; 4] = *b"k8s\0";
/// The number of bytes of an invalid body that a response repeats.
const EXCERPT_BYTES_MAX: usize = 30;

/// Decodes a body: an envelope that holds an object of the kind it names, or of `kind` in `api_version` if it does not
/// name one.
pub fn decode(bytes: &[u8], api_version: &str, kind: &str) -> Result<Value, Status> {
    let refuse = |why: &str| {
        let mut excerpt = String::new();
        for byte in bytes.iter().take(EXCERPT_BYTES_MAX) {
            // Writing to a String cannot fail.
            let _ = write!(excerpt, "{byte:02x}");
        }
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({excerpt})"
        ))
    };
    let Some(envelope) = bytes.strip_prefix(&MAGIC) else {
        return Err(refuse(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if envelope.is_empty() {
        return Err(if kind == "DeleteOptions" {
            Status::bad_request("empty body")
        } else {
            refuse("empty body")
        });
    }
    let envelope =
        read::envelope(envelope).ok_or_else(|| refuse("proto: illegal wireType or unexpected EOF"))?;
    let given =
        |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let (api_version, kind) = (given(&envelope.api_version, api_version), given(&envelope.kind, kind));
    let message = MessageType::of_kind(&api_version, &kind).ok_or_else(|| {
        Status::bad_request(format!("no kind {kind:?} is registered for version {api_version:?}"))
    })?;
    let room = MemoryBudget::new(MEMORY_MAX);
    let mut fields = read::message(envelope.raw, message, ReadContext::root(&room)).ok_or_else(|| {
        if room.is_used_up() {
            crate::decode::too_large()
        } else {
            refuse("proto: illegal wireType or unexpected EOF")
        }
    })?;
    fields.insert("apiVersion".into(), api_version.into());
    fields.insert("kind".into(), kind.into());
    Ok(Value::Object(fields))
}

/// Encodes an object in its envelope; `None` if its kind has no message.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = MessageType::of_kind(api_version, kind)?;
    let empty = Map::new();
    let raw = write::message(object.as_object().unwrap_or(&empty), message);
    Some(write::envelope(api_version, kind, &raw))
}

/// Encodes a list object by object, so that only one of them is in memory beside the bytes.
pub struct ListEncoder {
    api_version: String,
    kind: String,
    message: &'static MessageType,
    raw: Vec<u8>,
}

impl ListEncoder {
    /// Begins a list with this kind and metadata, with room for this many bytes. Returns `None` if the kind has no
    /// message.
    pub fn new(head: &Value, bytes: usize) -> Option<Self> {
        let text = |name: &str| head[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let message = MessageType::of_kind(&api_version, &kind)?;
        let mut raw = Vec::with_capacity(bytes);
        raw.extend(write::message(head.as_object()?, message));
        Some(Self { api_version, kind, message, raw })
    }

    /// Adds an object.
    pub fn add(&mut self, item: Value) {
        // The fields of a message that is written in parts are those of its parts, one after the other.
        let part = Map::from_iter([("items".to_owned(), Value::Array(vec![item]))]);
        self.raw.extend(write::message(&part, self.message));
    }

    /// Returns the list in its envelope, in pieces that are sent one after the other.
    pub fn into_pieces(self) -> [Vec<u8>; 3] {
        let (start, end) = write::envelope_around(&self.api_version, &self.kind, self.raw.len());
        [start, self.raw, end]
    }
}

/// Appends a watch event: its length, then its type and the object in its envelope. Appends nothing if the object's
/// kind has no message.
pub fn event_into(bytes: &mut Vec<u8>, kind: &str, object: &Value) {
    let Some(object) = encode(object) else { return };
    let (mut raw, mut event) = (Vec::new(), Vec::new());
    wire::put_bytes(&mut raw, 1, &object);
    wire::put_bytes(&mut event, 1, kind.as_bytes());
    wire::put_bytes(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).expect("objects are far below 4 GiB");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&event);
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: &Value) {
        let bytes = encode(object).expect("the kind has a message");
        assert_eq!(decode(&bytes, "", "").expect("our own bytes read"), *object);
    }

    #[test]
    fn a_list_in_parts_is_the_same_as_a_whole_one() {
        let map = |name: &str| json!({"metadata": {"name": name}, "data": {"a": "b", "c": ""}});
        for items in [vec![], vec![map("one")], vec![map("one"), map("two")]] {
            let metadata = json!({"resourceVersion": "7", "continue": "next"});
            let mut list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata});
            let mut parts = ListEncoder::new(&list, 10).expect("the kind has a message");
            for item in &items {
                parts.add(item.clone());
            }
            list["items"] = items.into();
            assert_eq!(parts.into_pieces().concat(), encode(&list).expect("the kind has a message"));
        }
        assert!(ListEncoder::new(&json!({"kind": "MugList", "apiVersion": "demo.dev/v1"}), 0).is_none());
    }

    /// The bytes come from kube-apiserver.
    #[test]
    fn discovery_is_written_as_kubernetes_writes_it() {
        let group = json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
        });
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let leases = json!({
            "name": "leases", "singularName": "lease", "namespaced": true, "kind": "Lease",
            "verbs": verbs, "storageVersionHash": "gqkMMb/YqFM=",
        });
        let list = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "coordination.k8s.io/v1",
            "resources": [leases],
        });
        let rows = [
            (group, "azhzAAoOCgJ2MRIIQVBJR3JvdXASJAoEYXBwcxINCgdhcHBzL3YxEgJ2MRoNCgdhcHBzL3YxEgJ2MRoAIgA="),
            (
                list,
                "azhzAAoVCgJ2MRIPQVBJUmVzb3VyY2VMaXN0EokBChZjb29yZGluYXRpb24uazhzLmlvL3YxEm8KBmxlYXNlcxABGgVMZWFz\
                 ZSJDCgZjcmVhdGUKBmRlbGV0ZQoQZGVsZXRlY29sbGVjdGlvbgoDZ2V0CgRsaXN0CgVwYXRjaAoGdXBkYXRlCgV3YXRjaDIF\
                 bGVhc2VCAEoAUgxncWtNTWIvWXFGTT0aACIA",
            ),
        ];
        for (document, recorded) in rows {
            let bytes = base64::engine::general_purpose::STANDARD.decode(recorded).expect("base64");
            assert_eq!(decode(&bytes, "", "").expect("is read"), document);
            check(&document);
        }
    }

    #[test]
    fn objects_survive_the_way_through_protobuf() {
        check(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 7}, "data": {"k": "v"},
            "binaryData": {"b": "AQID"}, "immutable": true}),
        );
        check(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i",
                    "resources": {"limits": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}}],
                    "volumes": [{"name": "v", "emptyDir": {}}]}}}, "status": {}}));
        check(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {},
            "spec": {"renewTime": "2026-01-02T03:04:05.000006Z", "leaseDurationSeconds": 15}}));
        check(
            &json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
            "details": {"name": "x", "causes": [{"reason": "r"}]}}),
        );
        check(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"}}]}));
        check(&json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "5"},
            "items": [{"metadata": {"name": "a"}}]}));
    }

    #[test]
    fn an_event_is_framed_by_its_length() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let mut bytes = Vec::new();
        event_into(&mut bytes, "ADDED", &object);
        let (length, event) = bytes.split_at(4);
        assert_eq!(length, u32::try_from(event.len()).expect("short").to_be_bytes());
        assert!(event.starts_with(b"\x0a\x05ADDED\x12"));
        let inner = encode(&object).expect("the kind has a message");
        assert!(event.ends_with(&inner), "type, object, and in it the object's envelope");
    }

    #[test]
    fn a_recorded_body_reads() {
        let bytes = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x11\x0a\x07\x0a\x05pb-cm\x12\x06\x0a\x01k\x12\x01v\x1a\0\x22\0";
        let object = decode(bytes, "v1", "ConfigMap").expect("a real client's body");
        assert_eq!(object["metadata"]["name"], "pb-cm");
        assert_eq!(object["data"], json!({"k": "v"}));
    }

    #[test]
    fn cut_and_garbled_bodies_are_refused_without_harm() {
        let whole = encode(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}]}}))
        .expect("the kind has a message");
        for end in 0..whole.len() {
            let _ = decode(&whole[..end], "v1", "Pod");
        }
        let entropy = homeostat_core::Entropy::seeded(5);
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            let at = usize::try_from(entropy.below(bytes.len() as u64)).expect("in range");
            bytes[at] = u8::try_from(entropy.below(256)).expect("a byte");
            let _ = decode(&bytes, "v1", "Pod");
        }
        assert_eq!(decode(b"nonsense", "v1", "Pod").map_err(|status| status.code), Err(400));
    }
}
