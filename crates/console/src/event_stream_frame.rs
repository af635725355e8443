//! Frames of an event stream, in the format of the HTML standard: `event: NAME`, `data: JSON`, an empty line.

use bytes::Bytes;
use serde::Serialize;

/// A comment that keeps the connection alive and detects that the viewer has disconnected.
pub(crate) const ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Returns one frame.
pub(crate) fn frame(event: &str, data: &impl Serialize) -> Bytes {
    // JSON contains no line breaks, so one data line is enough.
    let data = serde_json::to_string(data).expect("rows and JSON values are plain data");
    format!("event: {event}\ndata: {data}\n\n").into()
}
