//! Puts defects of the runtime that were repaired back, one at a time, and lets the simulator look for them.
//!
//! A defect is a patch in `crates/sim/defects` and the simulation that must find it, an ordinary test of the runtime. The patches
//! are applied to a copy of the source tree, with its own target folder: nothing that happens here can damage this tree.
//! Without any patch all the simulations must pass, or their failures would prove nothing. Not part of CI: each defect costs a
//! build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A defect, and the test of the runtime that finds it.
struct Defect {
    name: &'static str,
    test: &'static str,
    /// Why the simulator cannot find it; none where it must.
    missed: Option<&'static str>,
}

const fn found(name: &'static str, test: &'static str) -> Defect {
    Defect { name, test, missed: None }
}

const DEFECTS: [Defect; 12] = [
    found("B1", "sim::regressions::a_report_during_a_reconcile_is_kept"),
    found("B10", "sim::regressions::a_watch_that_expires_again_and_again_waits"),
    found("B12", "sim::regressions::what_is_written_elsewhere_is_not_in_the_cache"),
    found("B13", "sim::regressions::a_name_from_outside_is_one_of_the_operators_namespace"),
    Defect {
        name: "B15",
        test: "sim::regressions::failures_are_counted_over_a_lapsed_lease",
        missed: Some("the count is kept in memory and only sets the pauses: no end depends on it"),
    },
    found("B2", "sim::regressions::a_sheet_that_is_corrected_is_reconciled"),
    found("B3", "sim::regressions::a_sheet_that_is_released_is_reconciled"),
    found("B4", "sim::regressions::a_leader_that_stood_still_writes_nothing"),
    found("B5", "sim::regressions::replicas_with_different_shards_do_all_the_work"),
    found("B6", "sim::regressions::conditions_of_others_are_kept"),
    found("B7", "sim::regressions::an_object_that_panics_does_not_keep_others_from_being_reconciled"),
    found("B8", "sim::regressions::a_handler_that_is_recorded_as_done_is_not_called_on_an_old_state"),
];

/// Schedules of each simulation: most of the single faults of these small scenarios. More would take long where leases are renewed.
const SCHEDULES: &str = "150";

/// How the simulator found a defect.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    oracle: String,
    schedules: String,
    /// Steps of the user and faults.
    steps: usize,
}

/// Tries the defects of these names, or all; prints a table. Returns whether each was found that must be, and no other.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| DEFECTS.iter().all(|defect| defect.name != **name)) {
        let known: Vec<&str> = DEFECTS.iter().map(|defect| defect.name).collect();
        return Err(format!("there is no defect {unknown}: the known ones are {}", known.join(", ")));
    }
    let chosen = || DEFECTS.iter().filter(|defect| names.is_empty() || names.contains(&defect.name));
    let copy = Copy::of(root)?;
    copy.synchronize()?;
    eprintln!("without any defect, in {} …", copy.tree.display());
    copy.expect_to_pass(&chosen().map(|defect| defect.test).collect::<Vec<_>>())?;
    println!("| defect | found | oracle | schedules | steps |\n|---|---|---|---|---|");
    let mut is_as_expected = true;
    for defect in chosen() {
        let finding = copy.try_defect(defect)?;
        is_as_expected &= finding.is_some() == defect.missed.is_none();
        let name = defect.name;
        match (finding, defect.missed) {
            (Some(Finding { oracle, schedules, steps }), _) => {
                println!("| {name} | yes | {oracle} | {schedules} | {steps} |");
            }
            (None, Some(reason)) => println!("| {name} | no, as known: {reason} | | | |"),
            (None, None) => println!("| {name} | **no** | | | |"),
        }
    }
    Ok(is_as_expected)
}

/// A copy of the source tree, in which defects are put back.
struct Copy {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn of(root: &Path) -> Result<Self, String> {
        let folder = root.join("target/defects");
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        fs::create_dir_all(&tree).map_err(|error| format!("{} cannot be made: {error}", tree.display()))?;
        Ok(Self { root: root.to_owned(), tree, target })
    }

    /// Makes the copy equal to the tree. A file that is equal already is not written again, so that only what was changed is
    /// compiled.
    fn synchronize(&self) -> Result<(), String> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = run_command(Command::new("git").args(list).current_dir(&self.root))?;
        if !listed.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
        }
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let wanted: BTreeSet<&str> = text.split('\0').filter(|path| !path.is_empty()).collect();
        for path in &wanted {
            let (from, to) = (self.root.join(path), self.tree.join(path));
            // A file that was deleted and not yet committed is listed, too.
            let copied = match fs::read(&from) {
                Ok(bytes) if fs::read(&to).is_ok_and(|there| there == bytes) => Ok(()),
                Ok(bytes) => write_file(&to, &bytes),
                Err(_) => remove_file(&to),
            };
            copied.map_err(|error| format!("{} cannot be copied: {error}", from.display()))?;
        }
        remove_others(&self.tree, &self.tree, &wanted)
            .map_err(|error| format!("{} cannot be cleaned up: {error}", self.tree.display()))
    }

    fn expect_to_pass(&self, tests: &[&str]) -> Result<(), String> {
        let output = self.run_tests(tests)?;
        let told = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && told.contains(&format!("test result: ok. {} passed", tests.len())) {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("the simulations do not pass without a defect:\n{errors}\n{told}"))
    }

    /// Puts a defect back and runs its simulation; none means that it passed.
    fn try_defect(&self, defect: &Defect) -> Result<Option<Finding>, String> {
        let patch = self.root.join(format!("crates/sim/defects/{}.patch", defect.name));
        let mut apply = Command::new("git");
        // The copy is no part of the repository that it is in.
        apply.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree));
        let patched = run_command(apply.arg("apply").arg(&patch).current_dir(&self.tree))?;
        let output = if patched.status.success() {
            self.run_tests(&[defect.test])
        } else {
            let told = String::from_utf8_lossy(&patched.stderr);
            Err(format!("{}.patch does not fit any more, make it anew:\n{told}", defect.name))
        };
        self.synchronize()?;
        let Output { stdout, stderr, status } = output?;
        let told = String::from_utf8_lossy(&stdout);
        match read_finding(&told) {
            Some(finding) => Ok(Some(finding)),
            None if status.success() && told.contains("1 passed") => Ok(None),
            None => Err(format!(
                "{} makes its simulation fail without a report:\n{}\n{told}",
                defect.name,
                String::from_utf8_lossy(&stderr)
            )),
        }
    }

    fn run_tests(&self, tests: &[&str]) -> Result<Output, String> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--package", "homeostat-runtime", "--test", "it", "--", "--exact"]).args(tests);
        cargo.env("CARGO_TARGET_DIR", &self.target).env("HOMEOSTAT_SIM_SCHEDULES", SCHEDULES);
        // A report is long enough without the places where the test panicked.
        cargo.env("RUST_BACKTRACE", "0").current_dir(&self.tree);
        run_command(&mut cargo)
    }
}

fn run_command(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| format!("{name} cannot be run: {error}"))
}

fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

fn remove_file(path: &Path) -> std::io::Result<()> {
    if path.exists() { fs::remove_file(path) } else { Ok(()) }
}

/// Removes the files that are not wanted, such as those of a patch that did not fit.
fn remove_others(tree: &Path, folder: &Path, wanted: &BTreeSet<&str>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            remove_others(tree, &path, wanted)?;
        } else if let Ok(name) = path.strip_prefix(tree)
            && !wanted.contains(&*name.to_string_lossy())
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Reads the report of a simulation that failed.
fn read_finding(told: &str) -> Option<Finding> {
    let report = told.split_once("FAILED sim::")?.1;
    let oracle = report.lines().skip(1).find(|line| !line.is_empty())?.split_once(':')?.0.to_owned();
    let schedules = report.split_once("(found after ")?.1.split(' ').next()?.to_owned();
    let part = |title: &str| report.split_once(title).map_or("", |(_, part)| part);
    let lines = |part: &str| part.lines().skip(1).take_while(|line| line.starts_with("  ")).count();
    let faults =
        part("What goes wrong:").lines().skip(1).take_while(|line| line.starts_with("  at ")).count();
    Some(Finding { oracle, schedules, steps: lines(part("What the user does:")) + faults })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let told = "running 1 test\n\nFAILED sim::x\n\nsame end: the end differs\n(found after 132 schedules and 0.21s; \
                    1 fault(s) are enough, of 1)\n\nWhat the user does:\n  1. given: create\n  2. edit\n\n\
                    What goes wrong:\n  at \"create\": CRASH\n\nWhat happens:\n  0.000s starts\n";
        let expected = Finding { oracle: "same end".into(), schedules: "132".into(), steps: 3 };
        assert_eq!(read_finding(told), Some(expected));
        assert_eq!(read_finding("running 1 test\ntest sim::x ... ok"), None);
    }

    #[test]
    fn every_defect_has_a_patch_and_every_patch_a_defect() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/sim/defects");
        let files = fs::read_dir(folder).expect("the folder of patches is there");
        let mut patches: Vec<String> = files
            .map(|file| file.expect("it can be read").file_name().to_string_lossy().into_owned())
            .collect();
        patches.sort();
        let mut expected: Vec<String> =
            DEFECTS.iter().map(|defect| format!("{}.patch", defect.name)).collect();
        expected.sort();
        assert_eq!(patches, expected);
    }

    #[test]
    fn every_patch_fits() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for Defect { name, .. } in &DEFECTS {
            let patch = format!("crates/sim/defects/{name}.patch");
            let check =
                run_command(Command::new("git").args(["apply", "--check", &patch]).current_dir(&root));
            let check = check.expect("git is there");
            assert!(check.status.success(), "{patch}: {}", String::from_utf8_lossy(&check.stderr));
        }
    }

    #[test]
    fn every_simulation_is_there() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/runtime/tests/it/sim/regressions.rs");
        let text = fs::read_to_string(file).expect("the simulations are there");
        for Defect { name, test, .. } in &DEFECTS {
            let function = test.rsplit("::").next().unwrap_or_default();
            assert!(text.contains(&format!("fn {function}()")), "{name}: {test}");
        }
    }
}
