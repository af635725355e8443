//! Prints JSON values as Go does: kube-apiserver's messages contain whole values in the `%v` form, and clients show
//! them.

use std::fmt;

use serde_json::Value;

/// Prints a value as Go's `%v` prints the decoded JSON: `map[a:1 b:[x y]]`.
#[derive(Clone, Copy, Debug)]
pub struct GoPrinted<'a>(pub &'a Value);

impl fmt::Display for GoPrinted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(claim) => write!(f, "{claim}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => {
                f.write_str("[")?;
                print_joined(f, items.iter(), |f, item| write!(f, "{}", GoPrinted(item)))?;
                f.write_str("]")
            }
            Value::Object(fields) => {
                f.write_str("map[")?;
                print_joined(f, fields.iter(), |f, (name, value)| write!(f, "{name}:{}", GoPrinted(value)))?;
                f.write_str("]")
            }
        }
    }
}

fn print_joined<'f, T>(
    f: &mut fmt::Formatter<'f>,
    items: impl Iterator<Item = T>,
    print: impl Fn(&mut fmt::Formatter<'f>, T) -> fmt::Result,
) -> fmt::Result {
    for (at, item) in items.enumerate() {
        if at > 0 {
            f.write_str(" ")?;
        }
        print(f, item)?;
    }
    Ok(())
}

/// Returns a value as Go's `%#v` prints it.
pub(super) fn syntax(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let listed = fields.iter().map(|(name, value)| format!("{name:?}:{}", syntax(value)));
            format!("map[string]interface {{}}{{{}}}", listed.collect::<Vec<_>>().join(", "))
        }
        Value::Null => "interface {}(nil)".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Returns the name of the Go type that holds a decoded value.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns Go's name for the JSON type of a value.
pub(super) fn json_type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_go_prints_them() {
        let value = json!({"b": [1, "x", null, 1.5], "a": {"t": true}, "e": {}, "l": []});
        assert_eq!(syntax(&json!({"a": ["x", 1]})), r#"map[string]interface {}{"a":[]interface {}{"x", 1}}"#);
        assert_eq!(GoPrinted(&value).to_string(), "map[a:map[t:true] b:[1 x <nil> 1.5] e:map[] l:[]]");
    }
}
