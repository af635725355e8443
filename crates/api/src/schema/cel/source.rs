//! Parses the text of a rule into an expression, and finds the positions of its parts.
//!
//! The parser is the `cel` crate's. It exposes positions only with an error, so the text is parsed a second time, with
//! an error at the end, to obtain them. Two of its problems are worked around first: it parses twice what follows an
//! even number of `!` or `-`, so the time doubles with each level of nesting, and it does not limit chains (`a.b.c…`,
//! `1+1+…`), which would overflow the stack. The limits are cel-go's.

use cel::IdedExpr;
use cel::common::ast::SourceInfo;
use cel::parser::Parser;
use kube_cel::cel;

/// The maximum number of code points in a rule, as in cel-go.
const CODE_POINTS_MAX: usize = 100_000;

/// The maximum nesting of expressions, as in cel-go; links of a chain count like brackets.
const DEPTH_MAX: u16 = 250;

/// A stack on which expressions of that depth can be parsed and visited: about 64 KiB per level.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Runs code that visits expressions on a stack large enough not to overflow.
pub(super) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, work).expect("the system has a thread to spare");
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Parses an expression; the error is cel-go's message.
pub(super) fn parse(text: &str) -> Result<IdedExpr, String> {
    let letters = text.chars().count();
    if letters > CODE_POINTS_MAX {
        return Err(error_text(
            text,
            0,
            &format!("expression code point size exceeds limit: size: {letters}, limit {CODE_POINTS_MAX}"),
        ));
    }
    let scan = SourceScan::of(text);
    if scan.depth > usize::from(DEPTH_MAX) {
        return Err(error_text(text, 0, &format!("expression recursion limit exceeded: {DEPTH_MAX}")));
    }
    // At its own nesting limit, the crate's parser miscounts on the way out and panics in debug builds.
    let read = std::panic::catch_unwind(|| parser().parse(&scan.text));
    let read =
        read.map_err(|_| error_text(text, 0, &format!("expression recursion limit exceeded: {DEPTH_MAX}")))?;
    read.map_err(|found| {
        let mut all: Vec<_> = found.errors.iter().collect();
        all.sort_by_key(|error| error.pos);
        all.dedup_by_key(|error| error.pos);
        let lines = all.iter().map(|error| {
            let (line, column) = (at_least_one(error.pos.0), at_least_one(error.pos.1));
            // cel-go's grammar has one token fewer here than the crate's.
            shown(text, line, column - 1, &error.msg.replace("'[', '{', '}', '('", "'[', '{', '('"))
        });
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn parser() -> Parser {
    Parser::new().enable_optional_syntax(true).max_recursion_depth(DEPTH_MAX)
}

fn at_least_one(number: isize) -> usize {
    usize::try_from(number).unwrap_or(1).max(1)
}

/// The positions of the parts of an expression in its text.
pub(super) struct SourcePositions(Option<std::sync::Arc<SourceInfo>>);

impl SourcePositions {
    pub(super) fn of(text: &str) -> Self {
        // An unmatched bracket causes the error, after everything that has a position.
        let refused = parser().parse(&format!("{}\n)", SourceScan::of(text).text));
        Self(refused.err().and_then(|found| found.errors.into_iter().find_map(|error| error.source_info)))
    }

    /// Returns the offset of a part, in bytes.
    pub(super) fn of_part(&self, id: u64) -> usize {
        self.0.as_ref().and_then(|info| info.offset_for(id)).map_or(0, |(start, _)| start as usize)
    }
}

/// Returns `ERROR: <input>:1:5: what is wrong`, the line and an arrow below it.
pub(super) fn error_text(text: &str, offset: usize, message: &str) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count();
    shown(text, line, column, message)
}

fn shown(text: &str, line: usize, column: usize, message: &str) -> String {
    let snippet = text.split('\n').nth(line - 1).unwrap_or_default().replace('\t', " ");
    let wide = |letter: char, narrow: char, wide: char| if letter.len_utf8() > 1 { wide } else { narrow };
    let mut arrow: String =
        snippet.chars().take(column).map(|letter| wide(letter, '.', '\u{ff0e}')).collect();
    arrow.push(wide(snippet.chars().nth(column).unwrap_or(' '), '^', '\u{ff3e}'));
    format!("ERROR: <input>:{line}:{}: {message}\n | {snippet}\n | {arrow}", column + 1)
}

/// Scans the characters of a rule before the parser sees them.
struct SourceScan {
    /// The rule with pairs of `!` and of unary `-` replaced by blanks, otherwise unchanged.
    text: String,
    /// The maximum nesting of brackets and links.
    depth: usize,
    /// The number of links so far in each open bracket.
    links: Vec<usize>,
}

impl SourceScan {
    fn of(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let mut scan = Self { text: String::with_capacity(text.len()), depth: 0, links: vec![0] };
        let mut at = 0;
        let mut before = ' ';
        while at < letters.len() {
            let end = literal_end(&letters, at).unwrap_or(at);
            if end > at {
                scan.text.extend(&letters[at..end]);
                before = '"';
                at = end;
            } else if matches!(letters[at], '!' | '-') {
                let run = run_of(&letters, at);
                scan.signs(&letters[at..run], before);
                before = letters[at];
                at = run;
            } else {
                scan.letter(letters[at], before);
                if !letters[at].is_whitespace() {
                    before = letters[at];
                }
                at += 1;
            }
        }
        scan
    }

    fn letter(&mut self, letter: char, before: char) {
        self.text.push(letter);
        match letter {
            '(' | '[' | '{' => self.links.push(1),
            ')' | ']' | '}' if self.links.len() > 1 => {
                self.links.pop();
                // The called or indexed expression is now one level deeper.
                self.link();
            }
            ',' | '?' | ':' | '&' | '|' if before != '.' => self.restart(),
            '.' | '+' | '*' | '/' | '%' | '<' | '>' | '=' => self.link(),
            _ => {}
        }
    }

    fn link(&mut self) {
        if let Some(last) = self.links.last_mut() {
            *last += 1;
        }
        self.depth = self.depth.max(self.links.iter().sum());
    }

    fn restart(&mut self) {
        if let Some(last) = self.links.last_mut() {
            *last = 1;
        }
    }

    /// Copies a run of signs, blanking pairs of unary ones.
    fn signs(&mut self, run: &[char], before: char) {
        let is_operand = before.is_alphanumeric() || "_)]}\"'".contains(before);
        let signs = run.iter().filter(|letter| !letter.is_whitespace()).count();
        let binary = usize::from(run[0] == '-' && is_operand);
        let keep = binary + (signs - binary) % 2;
        let mut seen = 0;
        for &letter in run {
            if letter.is_whitespace() {
                self.text.push(letter);
                continue;
            }
            seen += 1;
            self.text.push(if seen <= keep { letter } else { ' ' });
        }
        self.link();
    }
}

/// Returns the end of a run of the same sign with white space in between; `!=` is not a sign.
fn run_of(letters: &[char], start: usize) -> usize {
    let mut end = start + 1;
    let mut at = end;
    while at < letters.len() && (letters[at].is_whitespace() || letters[at] == letters[start]) {
        let is_sign = letters[at] == letters[start] && letters.get(at + 1) != Some(&'=');
        at += 1;
        if is_sign {
            end = at;
        }
    }
    end
}

/// Returns the end of the string or comment that starts here.
fn literal_end(letters: &[char], start: usize) -> Option<usize> {
    if letters[start..].starts_with(&['/', '/']) {
        let length = letters[start..].iter().take_while(|letter| **letter != '\n').count();
        return Some(start + length);
    }
    let quote = *letters.get(start).filter(|letter| matches!(letter, '"' | '\''))?;
    let is_raw = letters[..start]
        .iter()
        .rev()
        .take(2)
        .take_while(|l| l.is_alphabetic())
        .any(|l| matches!(l, 'r' | 'R'));
    let delimiter: &[char] = &[quote; 3];
    let length = if letters[start..].starts_with(delimiter) { 3 } else { 1 };
    let mut at = start + length;
    while at < letters.len() {
        if letters[at] == '\\' && !is_raw {
            at += 2;
        } else if letters[at..].starts_with(&delimiter[..length]) {
            return Some(at + length);
        } else {
            at += 1;
        }
    }
    Some(letters.len())
}
