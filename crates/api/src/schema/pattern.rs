//! Compiles the patterns of definitions, which are written for Go's regular expressions, with the regex crate.
//!
//! The two agree except for character classes: `\d`, `\w` and `\s` are ASCII in Go, and `[`, `&` and `~` inside
//! brackets are literal. Nothing here backtracks, so matching takes time proportional to the length of the text.
//!
//! **Invariant:** a compiled pattern takes at most [`PATTERN_BYTES_MAX`], the patterns of one definition take at most
//! [`DEFINITION_BYTES_MAX`], and all patterns that are kept take at most [`KEPT_BYTES_MAX`]. Unicode classes make them
//! large: `\pL{150}` is eight megabytes.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::{Regex, RegexBuilder};

/// The maximum length of a pattern's text. The longest in use (IPv6 addresses, cron) have about 2000 characters; each
/// character can be a Unicode class that takes five kilobytes before it is even compiled.
const SOURCE_BYTES_MAX: usize = 8 * 1024;
/// The maximum program size of one pattern, which takes a few milliseconds to compile. Patterns in use take a few
/// kilobytes; `^.{0,1000}$` takes half of this.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// The maximum size of all programs of one definition.
const DEFINITION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum memory of all compiled patterns that are kept, for all definitions together; others are compiled each
/// time they are needed.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The maximum program size of a pattern that comes with a value or in a rule, which is about a millisecond of work.
pub(super) const SMALL_BYTES_MAX: usize = 512 * 1024;
/// The size limits with which a pattern is compiled, smallest first: the size of a program cannot be queried.
const SIZES: [usize; 6] = [4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024, SMALL_BYTES_MAX, PATTERN_BYTES_MAX];
/// The maximum memory of the matcher besides the program: a definition holds many patterns.
const CACHE_BYTES_MAX: usize = 64 * 1024;
/// Each byte of text takes, at worst, one step per this many bytes of program.
const PROGRAM_BYTES_PER_STEP: usize = 4 * 1024;
/// Go's message about a pattern that is too large to compile.
const TOO_LARGE: &str = "expression too large";

/// The memory of compiled patterns that are kept.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct CompiledPattern {
    pub(super) regex: Regex,
    bytes: usize,
    /// Whether it is counted in [`KEPT_BYTES`].
    is_kept: bool,
}

impl CompiledPattern {
    /// Returns an upper bound on its program size.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the maximum number of steps to match a text.
    pub(super) fn steps(&self, text: &str) -> usize {
        text.len().saturating_mul(self.bytes / PROGRAM_BYTES_PER_STEP)
    }
}

impl Drop for CompiledPattern {
    fn drop(&mut self) {
        if self.is_kept {
            KEPT_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A slot that keeps a compiled pattern.
#[derive(Debug, Default)]
pub(super) struct PatternSlot(OnceLock<CompiledPattern>);

impl PatternSlot {
    /// Returns the pattern, if it is kept.
    pub(super) fn get(&self) -> Option<&CompiledPattern> {
        self.0.get()
    }

    /// Keeps a pattern if there is room; otherwise returns it.
    pub(super) fn put(&self, mut compiled: CompiledPattern) -> Result<&CompiledPattern, CompiledPattern> {
        let bytes = compiled.bytes;
        let grown = |kept: usize| Some(kept + bytes).filter(|kept| *kept <= KEPT_BYTES_MAX);
        if KEPT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            return Err(compiled);
        }
        compiled.is_kept = true;
        // Another thread may have been faster; in that case this pattern is dropped and no longer counted.
        Ok(self.0.get_or_init(|| compiled))
    }
}

/// The budget for the patterns of one definition.
#[derive(Debug)]
pub(super) struct PatternBudget {
    bytes_left: usize,
    /// The patterns seen so far: versions repeat them.
    judged: HashMap<String, Option<String>>,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self { bytes_left: DEFINITION_BYTES_MAX, judged: HashMap::new() }
    }
}

impl PatternBudget {
    /// Returns the error about a pattern of the definition, if any.
    pub(super) fn error_text(&mut self, source: &str) -> Option<String> {
        if source.is_empty() {
            return None;
        }
        if let Some(known) = self.judged.get(source) {
            return known.clone();
        }
        let found = self.judge(source).err();
        self.judged.insert(source.to_owned(), found.clone());
        found
    }

    fn judge(&mut self, source: &str) -> Result<(), String> {
        let exceeded = || {
            let mebibytes = DEFINITION_BYTES_MAX / (1024 * 1024);
            format!(
                "error parsing regexp: {TOO_LARGE}: compiled, the patterns of one definition may take {mebibytes} MiB"
            )
        };
        if self.bytes_left == 0 {
            return Err(exceeded());
        }
        let compiled = compile(source);
        // A rejected pattern also took time.
        let bytes = compiled.as_ref().map_or(PATTERN_BYTES_MAX, |compiled| compiled.bytes);
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or_default();
        compiled.and_then(|_| left.map(drop).ok_or_else(exceeded))
    }
}

/// Compiles a pattern; the error is Go's if it is a common one.
pub(super) fn compile(source: &str) -> Result<CompiledPattern, String> {
    compile_within(source, PATTERN_BYTES_MAX)
}

/// Compiles a pattern if it stays small, for patterns that come with a value.
pub(super) fn compile_small(source: &str) -> Result<CompiledPattern, String> {
    compile_within(source, SMALL_BYTES_MAX)
}

fn compile_within(source: &str, bytes_max: usize) -> Result<CompiledPattern, String> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(format!("error parsing regexp: {TOO_LARGE}: it may have {SOURCE_BYTES_MAX} bytes"));
    }
    let translated = translated(source);
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= bytes_max) {
        let mut builder = RegexBuilder::new(&translated);
        match builder.dfa_size_limit(CACHE_BYTES_MAX).size_limit(bytes).build() {
            Ok(regex) => return Ok(CompiledPattern { regex, bytes, is_kept: false }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(error_text(source, &error)),
        }
    }
    Err(format!("error parsing regexp: {TOO_LARGE}: compiled it takes more than {} KiB", bytes_max / 1024))
}

fn error_text(source: &str, error: &regex::Error) -> String {
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
            // A closing bracket right at the start of a class is literal.
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
            let found = compile(source).map(|compiled| compiled.regex.is_match(text));
            assert_eq!(found, Ok(expected), "{source}");
        }
        assert_eq!(compile("[").err().as_deref(), Some("error parsing regexp: missing closing ]: `[`"));
        assert!(compile("(?=a)").is_err());
    }

    #[test]
    fn large_patterns_are_refused() {
        let error_text = compile(r"^\pL{150}$").expect_err("large");
        assert!(error_text.starts_with("error parsing regexp: expression too large"), "{error_text}");
        assert!(compile(&"a".repeat(SOURCE_BYTES_MAX + 1)).is_err());
        for source in ["^.{0,1000}$", r"^\S{1,253}$", "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"] {
            assert!(compile(source).is_ok(), "{source}");
        }
    }

    #[test]
    fn the_patterns_of_a_definition_have_a_sum() {
        let mut patterns = PatternBudget::default();
        let large = |at: usize| format!("^{at}.{{0,900}}$");
        let told: Vec<_> = (0..100).map(|at| patterns.error_text(&large(at))).collect();
        assert!(told[0].is_none() && told[3].is_none(), "{told:?}");
        assert!(told[99].as_ref().is_some_and(|why| why.contains("of one definition")), "{told:?}");
        assert_eq!(patterns.error_text(&large(0)), None, "those seen cost nothing");
        let mut patterns = PatternBudget::default();
        assert!((0..1000).all(|at| patterns.error_text(&format!("^v{at}$")).is_none()));
    }

    #[test]
    fn what_is_kept_is_counted() {
        let keep = PatternSlot::default();
        let before = KEPT_BYTES.load(Ordering::Relaxed);
        keep.put(compile("a").expect("good")).expect("there is room");
        assert!(keep.get().is_some() && KEPT_BYTES.load(Ordering::Relaxed) > before);
        let all: Vec<PatternSlot> = (0..100).map(|_| PatternSlot::default()).collect();
        let large = || compile("^.{0,1000}$").expect("good");
        let kept = all.iter().filter(|keep| keep.put(large()).is_ok()).count();
        assert!((1..=KEPT_BYTES_MAX / SMALL_BYTES_MAX).contains(&kept), "{kept}");
        drop((keep, all));
    }
}
