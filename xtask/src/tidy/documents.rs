//! Checks that the documents follow the code: README and ARCHITECTURE name every crate, CHANGELOG has the current
//! version, and docs/why/dependencies.md has a row for every dependency; the operator in the README is the example that
//! compiles.
//!
//! Only exact facts are checked; whether the words are true is for people.

use std::path::Path;

use super::workspace::Workspace;
use super::{Problem, read};

/// The most lines, so that a newcomer reads it in one sitting.
const ARCHITECTURE_LINES_MAX: usize = 300;

/// The operator on the README's first page. It is an example of its package, so every test run compiles it.
const EXAMPLE: &str = "crates/homeostat/examples/greeting.rs";
/// The most lines, so that it can be taken in at a glance.
const EXAMPLE_LINES_MAX: usize = 25;

/// Returns what the documents are missing.
pub(crate) fn check(root: &Path, workspace: &Workspace) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut with = |file: &str, judge: &dyn Fn(&str) -> Vec<Problem>| match read(&root.join(file)) {
        Ok(text) => problems.extend(judge(&text)),
        Err(_) => problems.push(Problem::new(file, 1, "is missing", "write it")),
    };
    with("README.md", &|text| crates_named("README.md", text, workspace));
    with("ARCHITECTURE.md", &|text| crates_named("ARCHITECTURE.md", text, workspace));
    with("ARCHITECTURE.md", &|text| short_enough(text));
    with("CHANGELOG.md", &|text| version_present(text, workspace));
    let example = read(&root.join(EXAMPLE)).unwrap_or_default();
    with("README.md", &|text| example_shown(text, &example));
    let manifest = read(&root.join("Cargo.toml")).unwrap_or_default();
    with("docs/why/dependencies.md", &|text| dependencies_explained(text, &manifest));
    problems
}

fn crates_named(file: &str, text: &str, workspace: &Workspace) -> Vec<Problem> {
    let named = |name: &str| text.contains(&format!("`{name}`"));
    let missing = workspace.packages.iter().filter(|package| !named(&package.name));
    missing
        .map(|package| {
            let what = format!("does not mention package `{}`", package.name);
            Problem::new(file, 1, what, "add a line that says what it is for, with its name in backquotes")
        })
        .collect()
}

fn example_shown(text: &str, example: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !text.contains(&format!("```rust\n{example}```")) {
        let fix = format!("copy {EXAMPLE} into a ```rust block, word for word");
        problems.push(Problem::new("README.md", 1, "does not show the example operator as it is", fix));
    }
    if example.lines().count() > EXAMPLE_LINES_MAX {
        let what = format!("has more than {EXAMPLE_LINES_MAX} lines, too many for the README's first page");
        problems.push(Problem::new(
            EXAMPLE,
            EXAMPLE_LINES_MAX,
            what,
            "make the API shorter, not the example denser",
        ));
    }
    problems
}

fn short_enough(text: &str) -> Vec<Problem> {
    let lines = text.lines().count();
    if lines < ARCHITECTURE_LINES_MAX {
        return Vec::new();
    }
    let what = format!("has {lines} lines, fewer than {ARCHITECTURE_LINES_MAX} are allowed");
    vec![Problem::new("ARCHITECTURE.md", lines, what, "move detail to the headers of the files it is about")]
}

fn version_present(text: &str, workspace: &Workspace) -> Vec<Problem> {
    let Some(version) = workspace.packages.first().map(|package| &package.version) else { return Vec::new() };
    if text.lines().any(|line| line.starts_with("## ") && line.contains(version.as_str())) {
        return Vec::new();
    }
    let what = format!("has no `## {version}` heading, the version in Cargo.toml");
    vec![Problem::new("CHANGELOG.md", 1, what, "say what the version changes for its users")]
}

fn dependencies_explained(text: &str, manifest: &str) -> Vec<Problem> {
    let unexplained = declared(manifest).filter(|(_, name)| !explained(text).any(|(_, row)| row == *name));
    let missing = unexplained.map(|(line, name)| {
        let fix = "add a row to docs/why/dependencies.md: what it saves, who keeps it, how to leave";
        Problem::new("Cargo.toml", line, format!("dependency `{name}` is not explained"), fix)
    });
    let gone = explained(text).filter(|(_, row)| !declared(manifest).any(|(_, name)| name == *row));
    let stale = gone.map(|(line, name)| {
        let what = format!("explains `{name}`, which Cargo.toml does not declare");
        Problem::new("docs/why/dependencies.md", line, what, "delete the row")
    });
    missing.chain(stale).collect()
}

/// Returns the first cells of the tables, with their lines.
fn explained(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let rows =
        text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, line.strip_prefix("| `")?)));
    rows.filter_map(|(line, row)| Some((line, row.split_once('`')?.0)))
}

/// Returns the names in `[workspace.dependencies]` with their lines, except our own.
fn declared(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = manifest.lines().enumerate().map(|(index, line)| (index + 1, line));
    let section = lines.skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with('['));
    let entries = section.filter(|(_, line)| !line.starts_with('#') && !line.contains("path = "));
    entries.filter_map(|(line, text)| Some((line, text.split_once(" = ")?.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::Package;
    use std::path::PathBuf;

    fn workspace() -> Workspace {
        let package = Package {
            name: "homeostat-core".to_owned(),
            version: "0.1.0".to_owned(),
            folder: PathBuf::new(),
            manifest: "crates/core/Cargo.toml".to_owned(),
            roots: Vec::new(),
            arrows: Vec::new(),
        };
        Workspace { packages: vec![package] }
    }

    #[test]
    fn every_crate_is_named() {
        assert!(crates_named("README.md", "- `homeostat-core`: words", &workspace()).is_empty());
        assert_eq!(crates_named("README.md", "- `homeostat-core-x`", &workspace()).len(), 1);
    }

    #[test]
    fn the_example_is_shown_as_it_is() {
        let readme = "text\n```rust\nfn main() {}\n```\n";
        assert_eq!(example_shown(readme, "fn main() {}\n"), []);
        assert_eq!(example_shown(readme, "fn main() { run() }\n").len(), 1);
        let long = "a();\n".repeat(26);
        assert_eq!(example_shown(&format!("```rust\n{long}```"), &long).len(), 1);
    }

    #[test]
    fn the_version_has_a_heading() {
        assert!(version_present("# Changes\n\n## 0.1.0 (unreleased)\n", &workspace()).is_empty());
        assert_eq!(version_present("# Changes\n\n## 0.0.9\n\nnot 0.1.0\n", &workspace()).len(), 1);
    }

    #[test]
    fn every_dependency_is_explained() {
        let manifest = "[workspace.dependencies]\na = \"1\"\n# b\nours = { path = \"x\" }\nc = { version = \"2\" }\n[other]\nd = \"1\"\n";
        let problems = dependencies_explained("| `a` | saves `c` |\n| `gone` | saves work |", manifest);
        let found: Vec<(&str, usize)> =
            problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
        assert_eq!(found, [("Cargo.toml", 5), ("docs/why/dependencies.md", 2)]);
    }
}
