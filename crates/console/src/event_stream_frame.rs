//! Frames of an event stream, as the HTML standard writes them: `event: NAME`, `data: JSON`, an empty line.

use bytes::Bytes;
use serde::Serialize;

/// A comment, which keeps the connection alive and finds out that the viewer has gone.
pub(crate) const ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Returns one frame.
pub(crate) fn frame(event: &str, data: &impl Serialize) -> Bytes {
    // JSON has no line break, so one data line is enough.
    let data = serde_json::to_string(data).expect("rows and JSON values are plain data");
    format!("event: {event}\ndata: {data}\n\n").into()
}
