//! Text that others wrote, made safe to print on a terminal.
//!
//! Names, messages and annotations may contain escape sequences. Printed as they are, they could change colours, hide
//! lines or set the title of the reader's window. Programs read `--json` instead, where nothing is changed.

/// How continued lines are indented, deeper than any line of ours, so that no text of others passes for one.
const CONTINUED: &str = "\n      ";

/// Returns the text with its control characters spelled out (`\u{1b}`), except line ends.
pub fn escape_controls(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && letter != '\n' {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Returns the text with its control characters spelled out, and all lines but the first indented.
pub fn escape_and_indent(text: &str) -> String {
    escape_controls(text).replace('\n', CONTINUED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        let check = |text: &str, expected: &str| assert_eq!(escape_and_indent(text), expected);
        check("plain “text”", "plain “text”");
        check("\u{1b}[2Jgone\r", "\\u{1b}[2Jgone\\u{d}");
        check("\u{9b}31m\u{7f}\t", "\\u{9b}31m\\u{7f}\\u{9}");
        check("a\n- Pod b", "a\n      - Pod b");
    }
}
