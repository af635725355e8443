//! Checks for words that must not be committed: notes to oneself, and paths of the author's machine.
//!
//! This is a text search on purpose: such words hide in comments, strings, scripts and documents alike. The words are
//! put together from halves here, so that this file does not accuse itself.

use std::path::{Path, PathBuf};

use super::source::Source;
use super::workspace::relative;
use super::{Problem, read};

struct Word {
    text: &'static str,
    what: &'static str,
    fix: &'static str,
}

const NOTE: &str = "do it now, or write an issue and say in the code what holds today";
const PATH: &str = "use a path relative to the repository, or a temporary folder";

const WORDS: &[Word] = &[
    Word { text: concat!("TO", "DO"), what: "note to oneself", fix: NOTE },
    Word { text: concat!("FIX", "ME"), what: "note to oneself", fix: NOTE },
    Word { text: concat!("XX", "X"), what: "note to oneself", fix: NOTE },
    Word { text: concat!("to", "do!"), what: "unfinished code", fix: NOTE },
    Word { text: concat!("/ho", "me/"), what: "path of one machine", fix: PATH },
    Word { text: concat!("/Us", "ers/"), what: "path of one machine", fix: PATH },
    Word { text: concat!("/ro", "ot/"), what: "path of one machine", fix: PATH },
    Word { text: concat!("/wo", "rk/"), what: "path of one machine", fix: PATH },
];

/// Documents, scripts and settings that are searched besides the Rust files. Folders are searched completely.
const PLACES: &[&str] = &[
    ".cargo",
    ".ci",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "README.md",
    "clippy.toml",
    "deny.toml",
    "docs",
    "scripts",
];

/// Returns every line of the project that has one of the words.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>, String> {
    let mut problems: Vec<Problem> = sources.iter().flat_map(|s| search(&s.file, &s.text)).collect();
    let mut paths = Vec::new();
    for place in PLACES {
        find(&root.join(place), &mut paths)?;
    }
    for path in paths {
        problems.extend(search(&relative(root, &path), &read(&path)?));
    }
    Ok(problems)
}

fn find(place: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    if place.is_dir() {
        let entries =
            std::fs::read_dir(place).map_err(|error| format!("cannot list {}: {error}", place.display()))?;
        for entry in entries.flatten() {
            find(&entry.path(), paths)?;
        }
    } else if place.is_file() && is_text(place) {
        paths.push(place.to_owned());
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    matches!(extension.as_deref(), None | Some("md" | "py" | "rs" | "sh" | "toml" | "txt" | "yaml" | "yml"))
}

fn search(file: &str, text: &str) -> Vec<Problem> {
    let on_line = |(index, line): (usize, &str)| {
        let found = WORDS.iter().find(|word| contains(line, word.text))?;
        Some(Problem::new(file, index + 1, format!("{}: `{}`", found.what, found.text), found.fix))
    };
    text.lines().enumerate().filter_map(on_line).collect()
}

/// Returns whether the word is on its own: nothing that could belong to it comes right before or, for a letter, after
/// it.
fn contains(line: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let open =
            !before.is_some_and(|c| is_letter(c) || (word.starts_with('/') && matches!(c, '.' | '}' | '/')));
        let closed = !word.ends_with(is_letter) || !after.is_some_and(is_letter);
        open && closed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(line: &str, expected: usize) {
        assert_eq!(search("a.rs", line).len(), expected, "{line}");
    }

    #[test]
    fn finds_words_but_not_parts_of_words() {
        check_line(concat!("// TO", "DO: later"), 1);
        check_line(concat!("// FIX", "ME"), 1);
        check_line("MASTODONS and fixme", 0);
        check_line(concat!("let a = \"XX", "XX\";"), 0);
        check_line(concat!("    to", "do!()"), 1);
    }

    #[test]
    fn finds_machine_paths_but_not_parts_of_paths() {
        check_line(concat!("open(\"/ho", "me/me/x\")"), 1);
        check_line(concat!("cd /wo", "rk/wt"), 1);
        check_line(concat!("crates/wo", "rk/src"), 0);
        check_line(concat!("\"${base}/ro", "ot/x\""), 0);
        check_line("/var/lib", 0);
    }
}
