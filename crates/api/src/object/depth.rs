//! Limits the nesting of objects.
//!
//! All code that visits objects is recursive, and JSON parsing stops at 128 levels. A deeper object could not be read
//! back, so nothing deeper is stored, and no patch creates one even temporarily.

use serde_json::Value;

/// The deepest nesting of a stored object: the limit of the JSON parser, minus the levels that lists and events add
/// around an object.
pub const DEPTH_MAX: usize = 120;

/// Returns whether the value is nested deeper than `limit`. A scalar has depth 0.
pub fn is_deeper(value: &Value, limit: usize) -> bool {
    let mut below: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => return false,
    };
    limit == 0 || below.any(|value| is_deeper(value, limit - 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_counts_containers() {
        assert!(!is_deeper(&json!(1), 0));
        assert!(is_deeper(&json!({}), 0));
        assert!(!is_deeper(&json!({"a": [1, 2]}), 2));
        assert!(is_deeper(&json!({"a": [1, {}]}), 2));
    }
}
