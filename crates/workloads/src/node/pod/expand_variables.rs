//! Expands `$(NAME)` in commands, arguments and values to the variable's value. An unknown reference stays unchanged,
//! and `$$` is a literal dollar.

/// Replaces every reference that `lookup` knows.
pub(crate) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            after
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name, ")"]),
            }
            after
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_expand_as_in_kubernetes() {
        let check = |text: &str, expected: &str| {
            let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
            assert_eq!(expand(text, lookup), expected, "{text}");
        };
        check("x$(A)y", "x1y");
        check("$(B)", "$(B)");
        check("$$(A)", "$(A)");
        check("$A $", "$A $");
        check("$(A", "$(A");
        check("$(A)$(A)", "11");
        check("$$$(A)", "$1");
    }
}
