//! Checks the names of objects, labels, ports and keys, with Kubernetes' messages.
//!
//! Every check returns its error messages, or none for a valid value; the caller adds the path. The rules are small
//! state machines over bytes: no regular expression is compiled or run here, although the messages quote them.

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest IANA service name (RFC 6335).
const PORT_NAME_BYTES_MAX: usize = 15;

const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const UNDERSCORED_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const DNS1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_PART_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const EMPTY_TEXT: &str = "must be non-empty";

/// How the objects of a kind may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain, which nearly every kind uses.
    Subdomain,
    /// DNS-1123 label.
    Label,
    /// Any path segment without control characters. Kubernetes also accepts control characters; nobody uses them on
    /// purpose.
    PathSegment,
    /// Any segment of a path; the kind checks the name itself.
    Any,
}

impl NameRule {
    /// Returns the error messages about a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::PathSegment | Self::Any => path_segment(name),
        }
    }

    /// Returns the error messages about a `generateName`: it may end in a dash, because a suffix follows.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            Some(start) if prefix.len() > 1 => self.check(&format!("{start}a")),
            _ => self.check(prefix),
        }
    }
}

/// Returns the error messages about a DNS-1123 label.
pub fn label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, LABEL_BYTES_MAX);
    if !is_label(text) {
        // A name with dots that is otherwise valid gets the shorter hint.
        let text = if is_subdomain(text) { "must not contain dots" } else { LABEL_TEXT };
        errors.push(text.into());
    }
    errors
}

/// Returns the error messages about a DNS-1123 subdomain.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut errors = too_long(text, SUBDOMAIN_BYTES_MAX);
    if !is_subdomain(text) {
        errors.push(SUBDOMAIN_TEXT.into());
    }
    errors
}

/// Returns the error messages about a subdomain whose labels may have underscores, as the names of DNS services do.
pub fn subdomain_with_underscores(text: &str) -> Vec<String> {
    let mut errors = too_long(text, SUBDOMAIN_BYTES_MAX);
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        starts_and_ends(label, is_end) && label.bytes().all(|byte| is_end(byte) || b"-_".contains(&byte))
    };
    if !text.split('.').all(is_part) {
        errors.push(UNDERSCORED_TEXT.into());
    }
    errors
}

/// Returns the error messages about a DNS-1035 label: a label that starts with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, LABEL_BYTES_MAX);
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        errors.push(DNS1035_TEXT.into());
    }
    errors
}

/// Returns the error messages about one segment of a path.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let parts = ["/", "%"].iter().filter(|part| text.contains(**part));
    let mut errors = parts.map(|part| format!("may not contain '{part}'")).collect::<Vec<_>>();
    if text.chars().any(char::is_control) {
        errors.push("may not contain control characters".into());
    }
    errors
}

/// Returns the error messages about a qualified name such as `example.com/name`: label keys, finalizers, condition
/// types.
pub fn qualified(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        None => (None, text),
        Some((_, rest)) if rest.contains('/') => {
            return vec!["a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".into()];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut errors = prefix.map(prefix_part).unwrap_or_default();
    if name.is_empty() {
        errors.push(format!("name part {EMPTY_TEXT}"));
    } else if name.len() > LABEL_BYTES_MAX {
        errors.push(format!("name part {}", length_text(LABEL_BYTES_MAX)));
    }
    if !is_name_part(name) {
        errors.push(QUALIFIED_PART_TEXT.into());
    }
    errors
}

fn prefix_part(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec![format!("prefix part {EMPTY_TEXT}")];
    }
    subdomain(prefix).into_iter().map(|text| format!("prefix part {text}")).collect()
}

/// Returns the error messages about the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = too_long(text, LABEL_BYTES_MAX);
    if !text.is_empty() && !is_name_part(text) {
        errors.push(LABEL_VALUE_TEXT.into());
    }
    errors
}

/// Returns the error messages about a key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut errors = too_long(text, SUBDOMAIN_BYTES_MAX);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        errors.push(CONFIG_KEY_TEXT.into());
    }
    if text == "." {
        errors.push("must not be '.'".into());
    } else if text == ".." {
        errors.push("must not be '..'".into());
    } else if text.starts_with("..") {
        errors.push("must not start with '..'".into());
    }
    errors
}

/// Returns the error messages about the name of an environment variable: printable ASCII without `=`.
pub fn environment_variable(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name ".to_owned() + EMPTY_TEXT];
    }
    if text.bytes().any(|byte| !(b' '..=b'~').contains(&byte) || byte == b'=') {
        return vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".into()];
    }
    Vec::new()
}

/// Returns the error messages about the name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > PORT_NAME_BYTES_MAX {
        errors.push(length_text(PORT_NAME_BYTES_MAX));
    }
    if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

fn too_long(text: &str, bytes_max: usize) -> Vec<String> {
    if text.len() > bytes_max { vec![length_text(bytes_max)] } else { Vec::new() }
}

fn length_text(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} characters")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    starts_and_ends(text, inner) && text.bytes().all(|byte| inner(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_name_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric();
    starts_and_ends(text, inner) && text.bytes().all(|byte| inner(byte) || b"-_.".contains(&byte))
}

fn starts_and_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| allowed(*byte)) && bytes.last().is_some_and(|byte| allowed(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: NameRule, name: &str, expected: &[&str]) {
        let error_texts = rule.check(name);
        assert_eq!(error_texts.len(), expected.len(), "{name}: {error_texts:?}");
        for (error_text, start) in error_texts.iter().zip(expected) {
            assert!(error_text.starts_with(start), "{name}: {error_text}");
        }
    }

    #[test]
    fn names_are_judged_as_the_real_server_does() {
        for bad in ["Upper", "under_score", "-dash", "a..b", "a/b", ""] {
            check(NameRule::Subdomain, bad, &["a lowercase RFC 1123 subdomain"]);
        }
        check(NameRule::Subdomain, "a.b-c.9", &[]);
        check(NameRule::Subdomain, &"x".repeat(254), &["must be no more than 253 characters"]);
        check(NameRule::Label, "a.b", &["must not contain dots"]);
        check(NameRule::Label, "UP", &["a lowercase RFC 1123 label"]);
        check(NameRule::Label, &"a".repeat(64), &["must be no more than 63 characters"]);
        check(NameRule::PathSegment, "System:Thing.X", &[]);
        check(NameRule::PathSegment, "a%b", &["may not contain '%'"]);
        for bad in ["a\0b", "a\nb", "a\u{7f}", "\u{85}"] {
            for rule in [NameRule::PathSegment, NameRule::Any] {
                check(rule, bad, &["may not contain control characters"]);
            }
        }
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(NameRule::Subdomain.check_prefix("w-").is_empty());
        assert_eq!(NameRule::Subdomain.check_prefix("Bad_").len(), 1);
    }

    #[test]
    fn qualified_names_have_a_prefix_and_a_name() {
        assert!(qualified("example.com/My_Name").is_empty());
        assert_eq!(qualified("").len(), 2);
        assert!(qualified("bad name/x")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert!(qualified("bad key")[0].starts_with("name part must consist"));
    }

    #[test]
    fn keys_and_ports_have_their_own_rules() {
        assert!(config_key("a.b_C-1").is_empty());
        assert_eq!(config_key("").len(), 1);
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert!(port_name("http-2").is_empty());
        assert_eq!(port_name("-HTTP--").len(), 4);
        assert!(environment_variable("A B").is_empty());
        assert_eq!(environment_variable("a=b").len(), 1);
    }
}
