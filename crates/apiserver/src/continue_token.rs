//! The continue token says where the next page of a list begins, and in which snapshot.
//!
//! The format is the same as in Kubernetes (base64url of a small JSON), but clients must treat it as opaque. The start
//! is relative to the listed prefix, so a modified token can only name a different position in the same list.
//!
//! A token also contains its time of issue: it is valid for as long as history is kept, whether or not anything is
//! written in the meantime.

use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use homeostat_api::decode;
use homeostat_api::status::Status;
use homeostat_core::Revision;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Base64 as Go decodes it, which ignores trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The version of the token's format.
const SHAPE: &str = "meta.k8s.io/v1";
/// Follows the last key of a page in the token, as in etcd's range starts.
const AFTER: char = '\0';
/// How long a token is valid: as long as the store keeps its history by default.
const LIFETIME: SignedDuration = SignedDuration::from_mins(5);

/// The position at which the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The snapshot of the list.
    pub(crate) position: TokenSnapshot,
    /// The last key of the previous page, relative to the prefix.
    pub(crate) start: String,
    /// How many items follow that key in the snapshot, if known, so that no page counts them again.
    pub(crate) left: Option<usize>,
    /// When it was issued, to the second.
    pub(crate) issued: Timestamp,
}

/// The snapshot from which the pages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSnapshot {
    /// The one from which the first page came.
    At(Revision),
    /// The newest one: the list continues, but is no longer consistent.
    Newest,
}

#[derive(Serialize)]
struct EncodedToken {
    v: String,
    rv: i64,
    start: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
    /// Seconds since 1970.
    at: i64,
}

impl EncodedToken {
    /// Parses a token as Go does, with its error messages: absent and null fields are empty.
    fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len().saturating_sub(1),
            };
            format!("illegal base64 data at input byte {at}")
        })?;
        let value = decode::body(&bytes, decode::TextFormat::Json, decode::DuplicateKeyReport::Omit)
            .map_err(|status| status.message)?
            .value;
        if !value.is_object() && !value.is_null() {
            let found = decode::type_name(&value);
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type storage.continueToken"
            ));
        }
        let number = |name: &str| value[name].as_i64().unwrap_or_default();
        let rv = match &value["rv"] {
            Value::Null => 0,
            given => given.as_i64().ok_or_else(|| wrong_field(given, "rv", "int64"))?,
        };
        let left = value["left"].as_u64().and_then(|left| usize::try_from(left).ok());
        Ok(Self { v: text_of(&value, "v")?, rv, start: text_of(&value, "start")?, left, at: number("at") })
    }
}

fn text_of(value: &Value, name: &str) -> Result<String, String> {
    match &value[name] {
        Value::Null => Ok(String::new()),
        given => given.as_str().map(str::to_owned).ok_or_else(|| wrong_field(given, name, "string")),
    }
}

fn wrong_field(given: &Value, name: &str, expected: &str) -> String {
    let found = match given {
        Value::Number(number) if expected != "string" => format!("number {number}"),
        given => decode::type_name(given).to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {expected}")
}

impl ContinueToken {
    /// Parses a token.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let shape = EncodedToken::parse(text).map_err(|why| invalid_token(&why))?;
        if shape.v != SHAPE {
            return Err(invalid_token(&format!(
                "server does not recognize this encoded version {}",
                shape.v
            )));
        }
        if shape.rv == 0 {
            return Err(invalid_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if shape.start.is_empty() {
            return Err(invalid_token("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let key = shape.start.strip_prefix('/').unwrap_or(&shape.start);
        if key.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(invalid_token(&shape.start));
        }
        let start = key.strip_suffix(AFTER).unwrap_or(key).to_owned();
        let position = match u64::try_from(shape.rv) {
            Ok(number) => TokenSnapshot::At(Revision::new(number)),
            Err(_) => TokenSnapshot::Newest,
        };
        let issued = Timestamp::from_second(shape.at).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Self { position, start, left: shape.left, issued })
    }

    /// Returns the token as the string that a client sends back.
    pub(crate) fn to_text(&self) -> String {
        let rv = match self.position {
            TokenSnapshot::At(revision) => {
                i64::try_from(revision.get()).expect("revisions fit 63 bits for aeons")
            }
            TokenSnapshot::Newest => -1,
        };
        let start = format!("{}{AFTER}", self.start);
        let shape = EncodedToken { v: SHAPE.into(), rv, start, left: self.left, at: self.issued.as_second() };
        BASE64.encode(serde_json::to_vec(&shape).expect("a token always encodes"))
    }

    /// Returns whether the token was issued too long ago. One that continues from the newest state does not expire.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.position != TokenSnapshot::Newest && now.duration_since(self.issued) > LIFETIME
    }

    /// Returns the refusal for a token whose snapshot is gone, including a token that continues from the newest state.
    pub(crate) fn expired(&self) -> Status {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - \
             objects that were created, modified, or deleted between the time the first chunk was returned and now \
             may show up in the list.",
        );
        let next = Self { position: TokenSnapshot::Newest, left: None, ..self.clone() };
        status.next = Some(next.to_text());
        status
    }
}

fn invalid_token(why: &str) -> Status {
    Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        let issued = Timestamp::from_second(1000).expect("in range");
        let token = ContinueToken {
            position: TokenSnapshot::At(Revision::new(7)),
            start: "default/a".into(),
            left: Some(3),
            issued,
        };
        assert_eq!(ContinueToken::parse(&token.to_text()), Ok(token.clone()));
        assert!(!token.is_over(issued + LIFETIME));
        let later = issued + LIFETIME + SignedDuration::from_secs(1);
        assert!(token.is_over(later));
        assert!(!ContinueToken { position: TokenSnapshot::Newest, ..token }.is_over(later));
    }

    #[test]
    fn tampered_tokens_are_refused() {
        let forged = |json: &str| BASE64.encode(json);
        for text in [
            "%%%".to_owned(),
            forged("{}"),
            forged(r#"{"v":"v9","rv":1,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/x"}"#),
            forged(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"//x"}"#),
        ] {
            assert_eq!(ContinueToken::parse(&text).map_err(|status| status.code), Err(400), "{text}");
        }
    }

    #[test]
    fn tokens_that_cannot_be_read_are_refused_in_the_words_of_go() {
        let json = |json: &str| BASE64.encode(json);
        let rows = [
            ("%%".to_owned(), "illegal base64 data at input byte 0"),
            ("abcde".to_owned(), "illegal base64 data at input byte 4"),
            (json("{"), "unexpected end of JSON input"),
            (json("x"), "invalid character 'x' looking for beginning of value"),
            (json("[]"), "json: cannot unmarshal array into Go value of type storage.continueToken"),
            (
                json(r#"{"v":1}"#),
                "json: cannot unmarshal number into Go struct field continueToken.v of type string",
            ),
            (
                json(r#"{"rv":1.5}"#),
                "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
            ),
            (json("{}"), "server does not recognize this encoded version "),
        ];
        for (text, why) in rows {
            let message = ContinueToken::parse(&text).map_err(|status| status.message);
            assert_eq!(
                message,
                Err(format!("invalid continue token: continue key is not valid: {why}")),
                "{text}"
            );
        }
    }
}
