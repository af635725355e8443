//! Reads the few fields of a stored object that the check of a token needs: of its account, and of the Pod, Secret or
//! Node that it is bound to.
//!
//! Every request with a token needs them before any limit applies, and users write these objects. All other fields are
//! skipped without being kept, and of a token only the hash is kept, so that the result is small however large the
//! object is.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What token checks need from one stored object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenFields {
    /// The object's uid; empty if it has none.
    pub(crate) uid: Box<str>,
    /// When its deletion began.
    pub(crate) deletion_timestamp: Option<Timestamp>,
    /// The hash of the token in a Secret.
    token_hash: Option<[u8; 32]>,
}

#[derive(Deserialize)]
struct ParsedObject<'a> {
    metadata: ParsedMetadata,
    #[serde(borrow)]
    data: Option<ParsedData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParsedMetadata {
    #[serde(default)]
    uid: Box<str>,
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
struct ParsedData<'a> {
    #[serde(borrow)]
    token: Option<Cow<'a, str>>,
}

impl TokenFields {
    /// Reads the fields from the bytes of an object; `None` if it is not one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let ParsedObject { metadata, data } = serde_json::from_slice(bytes).ok()?;
        let token = data.and_then(|data| STANDARD.decode(&*data.token?).ok());
        Some(Self {
            uid: metadata.uid,
            deletion_timestamp: metadata.deletion_timestamp,
            token_hash: token.map(|token| Sha256::digest(token).into()),
        })
    }

    /// Returns whether the object is a Secret with this token.
    pub(crate) fn has_token(&self, token: &str) -> bool {
        self.token_hash.is_some_and(|hash| hash == <[u8; 32]>::from(Sha256::digest(token)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_are_read_whatever_else_the_object_has() {
        let object = json!({"data": {"a": "eA==", "token": STANDARD.encode("secret"), "z": null},
            "imagePullSecrets": [{}, 7, {"name": "x"}],
            "metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}}});
        let fields = TokenFields::parse(object.to_string().as_bytes()).unwrap();
        assert_eq!(&*fields.uid, "u");
        assert_eq!(fields.deletion_timestamp.unwrap().to_string(), "2026-01-01T00:00:00Z");
        assert!(fields.has_token("secret"));
        assert!(!fields.has_token("secreT") && !fields.has_token(""));
    }

    #[test]
    fn an_object_without_a_token_has_none() {
        for data in [json!(null), json!({}), json!({"token": null}), json!({"token": "not base64"})] {
            let object = json!({"metadata": {}, "data": data}).to_string();
            let fields = TokenFields::parse(object.as_bytes()).unwrap();
            assert!(!fields.has_token("") && !fields.has_token("not base64"), "{data}");
        }
        assert_eq!(TokenFields::parse(b"{}"), None, "it has no metadata");
    }
}
