//! The allow-list of sizes: what may be longer than the limits, and how long exactly. It only shrinks: an entry that
//! is higher than the code needs, or that nothing needs, is a problem of its own.
//!
//! One line per entry, `path lines` or `path::function lines`; `#` starts a comment. Plain text, so that a merge
//! conflict is read at a glance.

use std::collections::BTreeMap;
use std::path::Path;

use super::sizes::Measure;
use super::{Problem, read};

/// Where the list lies.
pub(crate) const FILE: &str = "xtask/ratchet.txt";

/// The parsed list, with its opening comment.
pub(crate) struct Ratchet {
    comment: String,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    lines: usize,
    /// Where it stands in the list.
    line: usize,
}

impl Ratchet {
    /// Reads the committed list.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        Self::parse(&read(&root.join(FILE))?)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let mut entries = BTreeMap::new();
        for (index, content) in text.lines().enumerate() {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let line = index + 1;
            let (subject, lines) = content
                .rsplit_once(' ')
                .and_then(|(subject, lines)| Some((subject.trim(), lines.parse().ok()?)))
                .ok_or_else(|| format!("{FILE}:{line}: write `path lines` or `path::function lines`"))?;
            entries.insert(subject.to_owned(), Entry { lines, line });
        }
        Ok(Self { comment: comment.join("\n"), entries })
    }

    /// How many lines the subject may have, if it stands in the list.
    pub(crate) fn granted(&self, subject: &str) -> Option<usize> {
        self.entries.get(subject).map(|entry| entry.lines)
    }

    /// Entries that are higher than needed or needed by nothing.
    pub(crate) fn stale(&self, measures: &[Measure]) -> Vec<Problem> {
        let fix = "the list only shrinks: run `cargo xtask tidy --lower` and commit it";
        let problem = |(subject, entry): (&String, &Entry)| {
            let what = match needed(subject, measures) {
                Some(lines) if lines >= entry.lines => return None,
                Some(lines) => format!("{subject} needs only {lines} lines, {} are granted", entry.lines),
                None => {
                    format!("{subject} is within the limits or gone, yet {} lines are granted", entry.lines)
                }
            };
            Some(Problem::new(FILE, entry.line, what, fix))
        };
        self.entries.iter().filter_map(problem).collect()
    }

    /// The same list without what [`Ratchet::stale`] complains about.
    pub(crate) fn lowered(&self, measures: &[Measure]) -> Self {
        let lower = |(subject, entry): (&String, &Entry)| {
            let lines = needed(subject, measures)?.min(entry.lines);
            Some((subject.clone(), Entry { lines, ..*entry }))
        };
        Self { comment: self.comment.clone(), entries: self.entries.iter().filter_map(lower).collect() }
    }

    /// Writes the list back.
    pub(crate) fn store(&self, root: &Path) -> Result<(), String> {
        std::fs::write(root.join(FILE), self.print()).map_err(|error| format!("cannot write {FILE}: {error}"))
    }

    fn print(&self) -> String {
        let mut lines = vec![self.comment.clone()];
        lines.extend(self.entries.iter().map(|(subject, entry)| format!("{subject} {}", entry.lines)));
        lines.join("\n") + "\n"
    }
}

/// The length of the longest thing of that name, if it is over its limit. Two impls of one type may name a function
/// alike.
fn needed(subject: &str, measures: &[Measure]) -> Option<usize> {
    let over = measures.iter().filter(|m| m.subject == subject && m.lines > m.lines_max);
    over.map(|measure| measure.lines).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Vec<Measure> {
        let measure = |subject: &str, lines| Measure {
            subject: subject.to_owned(),
            file: "a.rs".to_owned(),
            line: 1,
            lines,
            lines_max: 70,
        };
        vec![measure("a.rs::long", 90), measure("a.rs::short", 20)]
    }

    #[test]
    fn only_exact_entries_stand() {
        let stale = |text: &str| Ratchet::parse(text).unwrap().stale(&measures()).len();
        assert_eq!(stale("a.rs::long 90"), 0);
        assert_eq!(stale("a.rs::long 80"), 0, "the size check complains, not this one");
        assert_eq!(stale("a.rs::long 91"), 1);
        assert_eq!(stale("a.rs::short 75"), 1);
        assert_eq!(stale("b.rs::gone 75"), 1);
    }

    #[test]
    fn lowering_never_raises() {
        let lower = |text: &str| Ratchet::parse(text).unwrap().lowered(&measures()).print();
        assert_eq!(lower("# why\na.rs::long 95\na.rs::short 75\nb.rs::gone 80\n"), "# why\na.rs::long 90\n");
        assert_eq!(lower("# why\na.rs::long 80\n"), "# why\na.rs::long 80\n");
    }

    #[test]
    fn a_broken_entry_names_its_line() {
        let error = Ratchet::parse("# why\na.rs many").err().unwrap_or_default();
        assert!(error.starts_with("xtask/ratchet.txt:2:"), "{error}");
    }
}
