//! Encodes the record as text: plain JSON if it is short, compressed base64 if it is longer, and a pointer to a Secret
//! if it exceeds the annotation limit.

use std::fmt::Write;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::authored_state::Fingerprint;
use super::record::HandlerRecord;

/// Longer records are compressed. Up to this size they are readable in `kubectl get -o yaml`.
const PLAIN_BYTES_MAX: usize = 512;

/// Longer texts are stored in a Secret. All annotations of an object share 256 KiB, and every reader of the object has
/// to load ours.
pub(super) const ANNOTATION_BYTES_MAX: usize = 32 * 1024;

/// The maximum size of a decompressed record: an object has at most 3 MiB, and a record holds a few states of it.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Deflate's medium level: the records are small, and the highest level does not make JSON any smaller.
const LEVEL: u8 = 6;

const DEFLATED: &str = "deflate:";
const ASIDE: &str = "aside:";

/// The content of the annotation.
#[derive(Debug, PartialEq)]
pub(super) enum StoredRecord {
    /// The record.
    Inline(HandlerRecord),
    /// The record is in a Secret; the annotation only holds a fingerprint of it.
    InSecret,
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

/// Returns the content of the annotation when the record is in a Secret. It changes with the record, so that watches of
/// the object report a changed record.
pub(super) fn pointer(text: &str) -> String {
    let mut pointer = ASIDE.to_owned();
    let _ = write!(pointer, "{}", Fingerprint::of_value(&text.into()));
    pointer
}

/// Decodes an annotation or the content of a Secret.
pub(super) fn decode(text: &str) -> Result<StoredRecord, String> {
    if text.starts_with(ASIDE) {
        return Ok(StoredRecord::InSecret);
    }
    let parse = |bytes: &[u8]| {
        serde_json::from_slice(bytes).map(StoredRecord::Inline).map_err(|error| error.to_string())
    };
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
        assert_eq!(decode(&text), Ok(StoredRecord::Inline(record)));
    }

    #[test]
    fn short_is_readable_and_long_is_compressed() {
        check(10, "{\"states\":");
        check(100_000, DEFLATED);
        assert!(encode(&record(100_000)).len() < 1_000);
    }

    #[test]
    fn a_pointer_changes_with_the_text() {
        assert_eq!(decode(&pointer("a")), Ok(StoredRecord::InSecret));
        assert_ne!(pointer("a"), pointer("b"));
    }

    #[test]
    fn rubbish_is_refused() {
        for rubbish in ["", "nothing", "deflate:!", "deflate:AAAA", "{\"marks\": 3}"] {
            assert!(decode(rubbish).is_err(), "{rubbish}");
        }
    }
}
