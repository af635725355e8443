//! The list of exceptions: what may exceed a limit, and by how much exactly. It only shrinks: an entry that is higher
//! than the code needs, or that nothing needs, is a problem itself.
//!
//! One line per entry, a subject and a number: `path 510`, `path::function 80`, `package type Name 5`. `#` starts a
//! comment. Plain text, so that a merge conflict can be read at a glance.

use std::collections::BTreeMap;
use std::path::Path;

use super::measure::Measure;
use super::{Problem, read};

/// The path of the list.
pub(crate) const FILE: &str = "xtask/ratchet.txt";

/// The parsed list, with its opening comment.
pub(crate) struct Ratchet {
    comment: String,
    entries: BTreeMap<String, Exception>,
}

#[derive(Clone, Copy)]
struct Exception {
    amount: usize,
    /// Its line in the list.
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
            let (subject, amount) = content
                .rsplit_once(' ')
                .and_then(|(subject, amount)| Some((subject.trim(), amount.parse().ok()?)))
                .ok_or_else(|| format!("{FILE}:{line}: write a subject and a number"))?;
            entries.insert(subject.to_owned(), Exception { amount, line });
        }
        Ok(Self { comment: comment.join("\n"), entries })
    }

    /// Returns what exceeds its limit and its exception, and the exceptions that are higher than needed.
    pub(crate) fn check(&self, measures: &[Measure]) -> Vec<Problem> {
        let mut problems: Vec<Problem> = measures.iter().filter_map(|measure| self.judge(measure)).collect();
        problems.extend(self.stale(measures));
        problems
    }

    fn judge(&self, measure: &Measure) -> Option<Problem> {
        let granted = self.entries.get(&measure.subject).map_or(measure.amount_max, |entry| entry.amount);
        if measure.amount <= granted.max(measure.amount_max) {
            return None;
        }
        let Measure { subject, amount, unit, .. } = measure;
        let what = format!("{subject}: {amount} {unit}, {granted} at most");
        Some(Problem::new(
            &measure.file,
            measure.line,
            what,
            format!("{} ({FILE} only shrinks)", measure.fix),
        ))
    }

    /// Returns the exceptions that are higher than needed or needed by nothing.
    fn stale(&self, measures: &[Measure]) -> Vec<Problem> {
        let fix = "the list only shrinks: run `cargo xtask tidy --lower` and commit it";
        let problem = |(subject, entry): (&String, &Exception)| {
            let what = match needed(subject, measures) {
                Some(amount) if amount >= entry.amount => return None,
                Some(amount) => format!("{subject} needs only {amount}, and {} are granted", entry.amount),
                None => {
                    format!("{subject} is within its limit or gone, yet {} are granted", entry.amount)
                }
            };
            Some(Problem::new(FILE, entry.line, what, fix))
        };
        self.entries.iter().filter_map(problem).collect()
    }

    /// Returns the list without the entries that [`Ratchet::stale`] reports.
    pub(crate) fn lowered(&self, measures: &[Measure]) -> Self {
        let lower = |(subject, entry): (&String, &Exception)| {
            let amount = needed(subject, measures)?.min(entry.amount);
            Some((subject.clone(), Exception { amount, ..*entry }))
        };
        Self { comment: self.comment.clone(), entries: self.entries.iter().filter_map(lower).collect() }
    }

    /// Writes the list back.
    pub(crate) fn store(&self, root: &Path) -> Result<(), String> {
        std::fs::write(root.join(FILE), self.print()).map_err(|error| format!("cannot write {FILE}: {error}"))
    }

    fn print(&self) -> String {
        let mut lines = vec![self.comment.clone()];
        lines.extend(self.entries.iter().map(|(subject, entry)| format!("{subject} {}", entry.amount)));
        lines.join("\n") + "\n"
    }
}

/// Returns the largest amount of that subject, if it exceeds its limit. Two impls of one type may have functions of the
/// same name.
fn needed(subject: &str, measures: &[Measure]) -> Option<usize> {
    let over = measures.iter().filter(|m| m.subject == subject && m.amount > m.amount_max);
    over.map(|measure| measure.amount).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Vec<Measure> {
        let measure = |subject: &str, amount| Measure {
            subject: subject.to_owned(),
            file: "a.rs".to_owned(),
            line: 1,
            amount,
            amount_max: 70,
            unit: "lines",
            fix: "split it".to_owned(),
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
