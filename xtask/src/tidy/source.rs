//! Reads and parses every Rust file of the workspace once, for all checks.
//!
//! Files are found on disk, not in git, so that a file counts before it is committed. A file that does not parse is a
//! problem itself, and the other checks skip it.

use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned;

use super::workspace::{Workspace, relative};
use super::{Problem, read};

/// One parsed Rust file.
pub(crate) struct Source {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// Relative to the repository.
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
}

impl Source {
    /// Parses `text`; the error is the problem to report.
    pub(crate) fn parse(path: PathBuf, file: String, text: String) -> Result<Self, Problem> {
        match syn::parse_file(&text) {
            Ok(syntax) => Ok(Self { path, file, text, syntax }),
            Err(error) => {
                let line = error.span().start().line;
                Err(Problem::new(&file, line, format!("does not parse: {error}"), "make it valid Rust"))
            }
        }
    }

    /// Returns whether everything in the file is test code, by its path.
    pub(crate) fn is_test(&self) -> bool {
        let has = |folder: &str| self.file.split('/').any(|part| part == folder);
        has("tests") || self.file.ends_with("/tests.rs") || self.file.ends_with("_tests.rs")
    }
}

/// Loads the files below the source folders of every package, sorted by path.
pub(crate) fn load(root: &Path, workspace: &Workspace) -> Result<(Vec<Source>, Vec<Problem>), String> {
    let mut paths = Vec::new();
    for package in &workspace.packages {
        for folder in ["src", "tests", "benches", "examples"] {
            find(&package.folder.join(folder), &mut paths)?;
        }
        paths.extend(Some(package.folder.join("build.rs")).filter(|path| path.is_file()));
    }
    paths.sort();
    paths.dedup();
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let file = relative(root, &path);
        let text = read(&path)?;
        match Source::parse(path, file, text) {
            Ok(source) => sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    Ok((sources, problems))
}

/// Finds Rust files below `folder`, except in nested packages, which are separate members.
fn find(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    if folder.join("Cargo.toml").exists() {
        return Ok(());
    }
    for entry in entries {
        let path = entry.map_err(|error| format!("cannot list {}: {error}", folder.display()))?.path();
        if path.is_dir() {
            find(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the line on which something starts, counted from one.
pub(crate) fn line(node: &impl Spanned) -> usize {
    node.span().start().line
}

/// Returns how many lines a span covers.
pub(crate) fn lines(from: Span, to: Span) -> usize {
    to.end().line + 1 - from.start().line
}

/// Returns whether the item is compiled only for tests.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("cfg") {
            return attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"));
        }
        path.segments.last().is_some_and(|segment| segment.ident == "test")
    })
}

/// Returns a source for the tests of the checks.
#[cfg(test)]
pub(crate) fn sample(file: &str, text: &str) -> Source {
    Source::parse(PathBuf::from("/r").join(file), file.to_owned(), text.to_owned()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_recognised() {
        let check = |text: &str, expected| {
            let item: syn::ItemFn = syn::parse_str(text).unwrap();
            assert_eq!(is_test_only(&item.attrs), expected, "{text}");
        };
        check("#[cfg(test)] fn f() {}", true);
        check("#[test] fn f() {}", true);
        check("#[tokio::test(start_paused = true)] async fn f() {}", true);
        check("#[cfg(unix)] fn f() {}", false);
        check("fn f() {}", false);
        assert!(sample("crates/a/tests/it/main.rs", "").is_test());
        assert!(!sample("crates/a/src/contests.rs", "").is_test());
    }

    #[test]
    fn broken_rust_is_a_problem_with_its_line() {
        let result = Source::parse(PathBuf::new(), "a.rs".to_owned(), "fn a() {}\nfn b( {}".to_owned());
        assert_eq!(result.err().map(|problem| problem.line), Some(2));
    }
}
