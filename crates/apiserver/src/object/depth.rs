//! How deep objects may be nested.
//!
//! Everything that walks an object does so by recursion, and reading JSON stops at 128 levels. An object that was let in
//! deeper could not be read back, so nothing deeper is stored, and no patch makes one on the way.

use serde_json::Value;

/// The deepest nesting of a stored object: what JSON is read to, less what lists and events wrap around an object.
pub(crate) const DEPTH_MAX: usize = 120;

/// Is the value nested deeper than this? A scalar has depth 0.
pub(crate) fn is_deeper(value: &Value, limit: usize) -> bool {
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
