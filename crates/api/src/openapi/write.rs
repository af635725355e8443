//! Writes the parts of a document one after another, dropping each before the next is built: a whole document as a
//! tree would take ten times its size.

use serde_json::Value;

/// Writes a value.
pub(super) fn value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing JSON to memory cannot fail");
}

/// Writes an object with these members.
pub(super) fn map(out: &mut Vec<u8>, members: impl IntoIterator<Item = (String, Value)>) {
    out.push(b'{');
    for (at, (name, member)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        value(out, &Value::String(name));
        out.push(b':');
        value(out, &member);
    }
    out.push(b'}');
}
