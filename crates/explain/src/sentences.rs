//! Small pieces of sentences: their end, counts, and lists of names.

/// Returns the text as a sentence: it ends with exactly one full stop, regardless of how the text ended.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    match text.chars().last() {
        Some('.' | '!' | '?') | None => text.to_owned(),
        _ => format!("{text}."),
    }
}

/// Returns the text with its first letter capitalized.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns `1 Pod`, `2 Pods`.
pub(crate) fn count_of(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {}", plural(one)) }
}

/// Returns the plural of a noun.
pub(crate) fn plural(one: &str) -> String {
    match one {
        name if name.ends_with('s') || name.ends_with('x') => format!("{name}es"),
        name => match name.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{name}s"),
        },
    }
}

/// Returns `: text`, or nothing for an empty text.
pub(crate) fn after_colon(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_once() {
        assert_eq!(sentence("it failed"), "it failed.");
        assert_eq!(sentence("the server said no. "), "the server said no.");
        assert_eq!(sentence("really?"), "really?");
        assert_eq!(capitalized("it"), "It");
    }

    #[test]
    fn counts_have_plurals() {
        assert_eq!(
            [count_of(1, "Pod"), count_of(2, "Pod"), count_of(0, "Ingress"), count_of(3, "NetworkPolicy")],
            ["1 Pod", "2 Pods", "0 Ingresses", "3 NetworkPolicies"]
        );
    }
}
