//! Patterns of definitions are written for Go's regular expressions; this reads them as ours.
//!
//! The two agree but for character classes: `\d`, `\w` and `\s` mean ASCII there, and `[`, `&` and `~` inside
//! brackets mean themselves. Nothing here backtracks, so a pattern costs time in proportion to the text.

use regex::{Regex, RegexBuilder};

/// Memory the matcher may use beside the program: a definition holds many patterns.
const CACHE_BYTES_MAX: usize = 64 * 1024;

/// Compiles a pattern; the complaint is Go's where it is a common one.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(&translated(source)).dfa_size_limit(CACHE_BYTES_MAX).build();
    built.map_err(|error| complaint(source, &error))
}

/// The largest program of a pattern that is compiled while an object is judged: about a millisecond's work.
const SMALL_BYTES_MAX: usize = 512 * 1024;

/// Compiles a pattern if it stays small, for patterns that come with a value.
pub(super) fn compile_small(source: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(&translated(source));
    let built = builder.dfa_size_limit(CACHE_BYTES_MAX).size_limit(SMALL_BYTES_MAX).build();
    built.map_err(|error| complaint(source, &error))
}

fn complaint(source: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let what = if text.contains("unclosed character class") {
        format!("missing closing ]: `{}`", source.rfind('[').map_or(source, |at| &source[at..]))
    } else if text.contains("unclosed group") {
        format!("missing closing ): `{source}`")
    } else if text.contains("unopened group") {
        format!("unexpected ): `{source}`")
    } else if text.contains("repetition operator missing expression") {
        format!("missing argument to repetition operator: `{source}`")
    } else if text.contains("look-around") {
        format!("invalid or unsupported Perl syntax: `{source}`")
    } else {
        text.lines().last().unwrap_or_default().to_owned()
    };
    format!("error parsing regexp: {what}")
}

fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut letters = source.chars().peekable();
    let mut class_at = None;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let Some(escaped) = letters.next() else {
                    out.push('\\');
                    break;
                };
                push_escaped(&mut out, escaped);
            }
            '[' if class_at.is_none() => {
                out.push('[');
                if letters.peek() == Some(&'^') {
                    letters.next();
                    out.push('^');
                }
                class_at = Some(out.len());
            }
            '[' if letters.peek() != Some(&':') => out.push_str("\\["),
            '[' => {
                out.push('[');
                for letter in letters.by_ref() {
                    out.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            // A closing bracket right at the start of a class stands for itself.
            ']' if class_at.is_some_and(|at| at == out.len()) => out.push_str("\\]"),
            ']' => {
                class_at = None;
                out.push(']');
            }
            '&' | '~' if class_at.is_some() => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escaped(out: &mut String, escaped: char) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\x0C\\r ]"),
        'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_mean_the_same_here() {
        let rows = [
            (r"^\d+$", "42", true),
            (r"^\d+$", "٤٢", false),
            (r"^[\w.-]+$", "a.b-c_9", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a[&~]+$", "[&~a", true),
            (r"^[]a]+$", "]a", true),
            (r"^(a|b){1,2}\/$", "ab/", true),
            ("b", "abc", true),
        ];
        for (source, text, expected) in rows {
            assert_eq!(compile(source).map(|regex| regex.is_match(text)), Ok(expected), "{source}");
        }
        assert_eq!(compile("[").err().as_deref(), Some("error parsing regexp: missing closing ]: `[`"));
        assert!(compile("(?=a)").is_err());
    }
}
