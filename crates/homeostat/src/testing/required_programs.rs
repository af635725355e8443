//! Checks for programs that a test needs in addition to Rust. If one is missing, the test is visibly skipped; in CI
//! (`CI=true`, which every CI service sets), where no test may be skipped, it fails.

use std::io::Write as _;

/// Returns whether this program is on `PATH`. If not, reports on standard error that the test is skipped and how to get
/// the program; in CI it panics.
///
/// ```no_run
/// # fn kubectl_prints_the_columns() {
/// if !homeostat::testing::has_tool("kubectl", "https://kubernetes.io/docs/tasks/tools") {
///     return;
/// }
/// # }
/// ```
#[track_caller]
pub fn has_tool(program: &str, how_to_get_it: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    skip_without(found, program, how_to_get_it).is_some()
}

/// Returns the program that the test found by itself, for programs that need not be on `PATH`. If it found nothing,
/// reports a skip as [`has_tool`] does.
#[track_caller]
pub fn skip_without<T>(found: Option<T>, what: &str, how_to_get_it: &str) -> Option<T> {
    if found.is_none() {
        let reason = format!("{what} is not installed ({how_to_get_it})");
        assert!(!is_ci(), "{reason}, and CI allows no test to be left out");
        report_skip(&reason);
    }
    found
}

/// Reports on standard error, bypassing the capture of test output, that the running test is skipped and why. Use it
/// for reasons that no installation can change, such as the user's permissions.
pub fn report_skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value != "false" && !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(has_tool("sh", "part of every system"));
    }
}
