//! Checks the syntax of label keys and values, and words the messages that explain the rules to users.
//!
//! Each check returns every violated rule, with Kubernetes' wording; an empty result means valid.

const NAME_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns the faults of a label key.
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            prefix_faults(prefix, &mut faults);
            name
        }
        _ => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {NAME_RULE} {optional}")];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    faults
}

/// Returns the faults of a label value.
pub fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        faults.push(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    faults
}

fn prefix_faults(prefix: &str, faults: &mut Vec<String>) {
    if prefix.is_empty() {
        faults.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(format!("prefix part must be no more than {SUBDOMAIN_BYTES_MAX} bytes"));
    }
    if !prefix.split('.').all(is_dns_label) {
        faults.push(format!("prefix part {SUBDOMAIN_RULE}"));
    }
}

fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_framed(text.as_bytes(), |byte| byte.is_ascii_alphanumeric(), is_inner)
}

fn is_dns_label(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_framed(text.as_bytes(), is_end, |byte| is_end(byte) || byte == b'-')
}

/// Returns whether the text is not empty, consists of `inner` bytes, and begins and ends with `end` bytes.
fn is_framed(text: &[u8], end: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    text.first().is_some_and(|first| end(*first))
        && text.last().is_some_and(|last| end(*last))
        && text.iter().all(|byte| inner(*byte))
}

/// Returns the text in double quotes as Go's `%q` prints it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            _ if letter.is_ascii_control() => out.extend(format!("\\x{:02x}", u32::from(letter)).chars()),
            _ if letter.is_control() => out.extend(format!("\\u{:04x}", u32::from(letter)).chars()),
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}
