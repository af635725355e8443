//! The record as text: plain JSON while it is short enough to read, deflated and in base64 beyond, and beyond the limit
//! of an annotation a pointer to a Secret.

use std::fmt::Write;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::essence::Fingerprint;
use super::record::HandlerRecord;

/// Longer records are compressed. Up to this they are worth reading with `kubectl get -o yaml`.
const PLAIN_BYTES_MAX: usize = 512;

/// Longer texts are stored in a Secret. All annotations of an object share 256 KiB, and every reader of the object pays
/// for ours.
pub(super) const ANNOTATION_BYTES_MAX: usize = 32 * 1024;

/// Records do not inflate beyond this: an object has at most 3 MiB, and a record a few states of it.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Deflate's medium level: the records are small, and the highest level makes JSON no smaller.
const LEVEL: u8 = 6;

const DEFLATED: &str = "deflate:";
const ASIDE: &str = "aside:";

/// What an annotation says.
#[derive(Debug, PartialEq)]
pub(super) enum Stored {
    /// The record.
    Here(HandlerRecord),
    /// The record is in the Secret; this named its content when the annotation was written.
    Aside,
}

/// Returns the record as text.
pub(super) fn encode(record: &HandlerRecord) -> String {
    let plain = serde_json::to_string(record).expect("a record is plain data");
    if plain.len() <= PLAIN_BYTES_MAX {
        return plain;
    }
    let mut text = DEFLATED.to_owned();
    BASE64_STANDARD.encode_string(miniz_oxide::deflate::compress_to_vec(plain.as_bytes(), LEVEL), &mut text);
    text
}

/// Returns what is written into the annotation when the text of the record is elsewhere. It changes with the text, so
/// whoever watches the object learns that the record changed.
pub(super) fn pointer(text: &str) -> String {
    let mut pointer = ASIDE.to_owned();
    let _ = write!(pointer, "{}", Fingerprint::of_value(&text.into()));
    pointer
}

/// Reads an annotation, or the text of a Secret.
pub(super) fn decode(text: &str) -> Result<Stored, String> {
    if text.starts_with(ASIDE) {
        return Ok(Stored::Aside);
    }
    let parse =
        |bytes: &[u8]| serde_json::from_slice(bytes).map(Stored::Here).map_err(|error| error.to_string());
    let Some(deflated) = text.strip_prefix(DEFLATED) else { return parse(text.as_bytes()) };
    let deflated = BASE64_STANDARD.decode(deflated).map_err(|error| error.to_string())?;
    let plain = miniz_oxide::inflate::decompress_to_vec_with_limit(&deflated, RECORD_BYTES_MAX);
    parse(&plain.map_err(|error| error.to_string())?)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn record(bytes: usize) -> HandlerRecord {
        let mut record = HandlerRecord::default();
        let essence = json!({"spec": {"text": "x".repeat(bytes)}});
        let fingerprint = Fingerprint::of_value(&essence);
        record.adopt(["update"], fingerprint);
        record.keep_state(fingerprint, &essence, Timestamp::UNIX_EPOCH);
        record
    }

    #[track_caller]
    fn check(bytes: usize, start: &str) {
        let record = record(bytes);
        let text = encode(&record);
        assert!(text.starts_with(start), "{text}");
        assert_eq!(decode(&text), Ok(Stored::Here(record)));
    }

    #[test]
    fn short_is_readable_and_long_is_compressed() {
        check(10, "{\"states\":");
        check(100_000, DEFLATED);
        assert!(encode(&record(100_000)).len() < 1_000);
    }

    #[test]
    fn a_pointer_changes_with_the_text() {
        assert_eq!(decode(&pointer("a")), Ok(Stored::Aside));
        assert_ne!(pointer("a"), pointer("b"));
    }

    #[test]
    fn rubbish_is_refused() {
        for rubbish in ["", "nothing", "deflate:!", "deflate:AAAA", "{\"marks\": 3}"] {
            assert!(decode(rubbish).is_err(), "{rubbish}");
        }
    }
}
