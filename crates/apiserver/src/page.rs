//! The continue token: where the next page of a list begins, and in which snapshot.
//!
//! The shape is Kubernetes' (base64url of a small JSON), but clients must treat it as opaque. The start is relative
//! to the listed prefix, so a tampered token can name another place of the same list and nothing else.
//!
//! A token also says when it was handed out: it is good for as long as history is kept, whether or not somebody writes
//! meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use homeostat_core::Revision;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::status::Status;

/// The version of the token's shape.
const SHAPE: &str = "meta.k8s.io/v1";
/// Follows the last key of a page in the token, as etcd's range start does.
const AFTER: char = '\0';
/// How long a token is good for: as long as the store keeps history by default.
const LIFETIME: SignedDuration = SignedDuration::from_mins(5);

/// Where the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// In which snapshot.
    pub(crate) position: Position,
    /// The last key of the page before, relative to the prefix.
    pub(crate) start: String,
    /// How many items follow that key in the snapshot, if known: so that no page counts them again.
    pub(crate) left: Option<usize>,
    /// When it was handed out, to the second.
    pub(crate) issued: Timestamp,
}

/// Which snapshot the pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The one the first page came from.
    At(Revision),
    /// The newest: the list continues, but is not consistent.
    Newest,
}

#[derive(Deserialize, Serialize)]
struct Shape {
    v: String,
    rv: i64,
    start: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
    /// Seconds since 1970.
    #[serde(default)]
    at: i64,
}

impl Token {
    /// Reads a token.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
        let shape = serde_json::from_slice::<Shape>(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if shape.v != SHAPE {
            return Err(invalid("server does not recognize this encoded version"));
        }
        if shape.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let start = shape.start.strip_suffix(AFTER).unwrap_or(&shape.start).to_owned();
        if start.split('/').any(|segment| segment == "." || segment == "..") || start.starts_with('/') {
            return Err(invalid(&format!("{:?}", shape.start)));
        }
        let position = match u64::try_from(shape.rv) {
            Ok(0) => return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
            Ok(number) => Position::At(Revision::new(number)),
            Err(_) => Position::Newest,
        };
        let issued = Timestamp::from_second(shape.at).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Self { position, start, left: shape.left, issued })
    }

    /// The text a client sends back.
    pub(crate) fn to_text(&self) -> String {
        let rv = match self.position {
            Position::At(revision) => i64::try_from(revision.get()).expect("revisions fit 63 bits for aeons"),
            Position::Newest => -1,
        };
        let start = format!("{}{AFTER}", self.start);
        let shape = Shape { v: SHAPE.into(), rv, start, left: self.left, at: self.issued.as_second() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&shape).expect("a token always encodes"))
    }

    /// Was it handed out too long ago? One that continues from the newest state has no age.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.position != Position::Newest && now.duration_since(self.issued) > LIFETIME
    }

    /// The refusal of a token whose snapshot is gone, with one that continues from the newest state.
    pub(crate) fn expired(&self) -> Status {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - \
             objects that were created, modified, or deleted between the time the first chunk was returned and now \
             may show up in the list.",
        );
        let next = Self { position: Position::Newest, left: None, ..self.clone() };
        status.next = Some(next.to_text());
        status
    }
}

fn invalid(why: &str) -> Status {
    Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        let issued = Timestamp::from_second(1000).expect("in range");
        let token = Token {
            position: Position::At(Revision::new(7)),
            start: "default/a".into(),
            left: Some(3),
            issued,
        };
        assert_eq!(Token::parse(&token.to_text()), Ok(token.clone()));
        assert!(!token.is_over(issued + LIFETIME));
        let later = issued + LIFETIME + SignedDuration::from_secs(1);
        assert!(token.is_over(later));
        assert!(!Token { position: Position::Newest, ..token }.is_over(later));
    }

    #[test]
    fn tampered_tokens_are_refused() {
        let forged = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for text in [
            "%%%".to_owned(),
            forged("{}"),
            forged(r#"{"v":"v9","rv":1,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/x"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"/x"}"#),
        ] {
            assert_eq!(Token::parse(&text).map_err(|status| status.code), Err(400), "{text}");
        }
    }
}
