//! Fields that every object has, read as numbers.

use serde_json::Value;

/// Returns the resourceVersion as a number; 0 if it is not one.
pub(crate) fn revision(meta: &Value) -> u64 {
    meta["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns a time in seconds since 1970; 0 if there is none.
pub(crate) fn seconds(value: &Value) -> i64 {
    milliseconds(value) / 1000
}

/// Returns a time in milliseconds since 1970; 0 if there is none.
pub(crate) fn milliseconds(value: &Value) -> i64 {
    let time = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    time.map_or(0, jiff::Timestamp::as_millisecond)
}
