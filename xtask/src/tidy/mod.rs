//! Checks what the compiler cannot: one check per file, each a pure function from what was loaded to [`Problem`]s.
//! `workspace` and `source` load; `arrows`, `dead_files`, `headers`, `names`, `words` and `documents` check; `sizes`,
//! `type_names` and `module_cycles` count, and `ratchet` compares the counts with their limits.
//!
//! **Invariant:** a check never writes; only [`lower`] touches a file, and only to tighten `xtask/ratchet.txt`.

use std::fmt;
use std::path::Path;

mod arrows;
mod dead_files;
mod documents;
mod headers;
mod measure;
mod module_cycles;
mod names;
mod ratchet;
mod sizes;
mod source;
mod type_names;
mod words;
mod workspace;

use measure::Measure;
use ratchet::Ratchet;
use source::Source;
use workspace::Workspace;

/// One problem to fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Relative to the repository.
    pub(crate) file: String,
    /// Counted from one.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) fix: String,
}

impl Problem {
    fn new(file: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    {}", self.file, self.line, self.what, self.fix)
    }
}

/// The result of one run.
pub(crate) struct Report {
    pub(crate) packages: usize,
    pub(crate) files: usize,
    pub(crate) problems: Vec<Problem>,
}

/// Runs every check on the repository at `root`. An error means that the check could not run, not that it found
/// something.
pub(crate) fn run(root: &Path) -> Result<Report, String> {
    let workspace = Workspace::load(root)?;
    let (sources, mut problems) = source::load(root, &workspace)?;
    let ratchet = Ratchet::load(root)?;
    problems.extend(arrows::check(&workspace));
    problems.extend(dead_files::check(&workspace, &sources));
    problems.extend(sources.iter().filter_map(headers::check));
    problems.extend(sources.iter().flat_map(names::check));
    problems.extend(ratchet.check(&measure(&workspace, &sources)));
    problems.extend(words::check(root, &sources)?);
    problems.extend(documents::check(root, &workspace));
    problems.sort();
    problems.dedup();
    Ok(Report { packages: workspace.packages.len(), files: sources.len(), problems })
}

/// Lowers every ratchet entry to what the code needs now and removes unnecessary ones. Never raises one.
pub(crate) fn lower(root: &Path) -> Result<(), String> {
    let workspace = Workspace::load(root)?;
    let (sources, _) = source::load(root, &workspace)?;
    Ratchet::load(root)?.lowered(&measure(&workspace, &sources)).store(root)
}

/// Counts everything that has a limit and may be granted an exception.
fn measure(workspace: &Workspace, sources: &[Source]) -> Vec<Measure> {
    let mut measures = sizes::measure(sources);
    measures.extend(type_names::measure(workspace, sources));
    measures.extend(module_cycles::measure(workspace, sources));
    measures
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let report = run(&crate::root()).unwrap();
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "run `cargo xtask tidy`:\n{}", problems.join("\n"));
    }
}
