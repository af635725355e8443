//! Puts defects of the runtime that were repaired back, one at a time, and lets the simulator look for them.
//!
//! A defect is a patch in `crates/sim/defects` and the simulation that must find it, an ordinary test of the runtime. The patch is
//! applied to this tree, so that only what depends on it is compiled, and reversed in any case. Not part of CI: each defect
//! costs a build.

use std::path::Path;
use std::process::{Command, Output};

/// A defect, and the test of the runtime that finds it.
struct Defect {
    name: &'static str,
    test: &'static str,
}

const DEFECTS: [Defect; 3] = [
    Defect { name: "B2", test: "sim::a_sheet_that_is_corrected_is_reconciled" },
    Defect { name: "B3", test: "sim::a_sheet_that_is_released_is_reconciled" },
    Defect { name: "B6", test: "sim::conditions_of_others_are_kept" },
];

/// How the simulator found a defect.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    oracle: String,
    schedules: String,
    /// Steps of the user and faults.
    steps: usize,
}

/// Tries the defects of these names, or all; prints a table. Returns whether each was found.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| DEFECTS.iter().all(|defect| defect.name != **name)) {
        let known: Vec<&str> = DEFECTS.iter().map(|defect| defect.name).collect();
        return Err(format!("there is no defect {unknown}: the known ones are {}", known.join(", ")));
    }
    println!("| defect | found | oracle | schedules | steps |\n|---|---|---|---|---|");
    let mut is_all_found = true;
    for defect in DEFECTS.iter().filter(|defect| names.is_empty() || names.contains(&defect.name)) {
        let finding = try_defect(root, defect)?;
        is_all_found &= finding.is_some();
        match finding {
            Some(Finding { oracle, schedules, steps }) => {
                println!("| {} | yes | {oracle} | {schedules} | {steps} |", defect.name);
            }
            None => println!("| {} | no | | | |", defect.name),
        }
    }
    Ok(is_all_found)
}

/// Applies the patch, runs the test and reverses the patch.
fn try_defect(root: &Path, defect: &Defect) -> Result<Option<Finding>, String> {
    let patch = format!("crates/sim/defects/{}.patch", defect.name);
    git_apply(root, &[&patch])?;
    let arguments = ["test", "--package", "homeostat-runtime", "--test", "it", "--", "--exact", defect.test];
    let output = Command::new("cargo").args(arguments).current_dir(root).output();
    git_apply(root, &["--reverse", &patch])?;
    let Output { stdout, stderr, .. } = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    let told = String::from_utf8_lossy(&stdout);
    if !told.contains("running 1 test") {
        return Err(format!("{} does not compile:\n{}", defect.name, String::from_utf8_lossy(&stderr)));
    }
    Ok(read_finding(&told))
}

fn git_apply(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("git").arg("apply").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git cannot be run: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("git apply {arguments:?}: {told}")) }
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
        let files = std::fs::read_dir(folder).expect("the folder of patches is there");
        let mut patches: Vec<String> = files
            .map(|file| file.expect("it can be read").file_name().to_string_lossy().into_owned())
            .collect();
        patches.sort();
        let expected: Vec<String> = DEFECTS.iter().map(|defect| format!("{}.patch", defect.name)).collect();
        assert_eq!(patches, expected);
    }
}
