//! Project chores, in Rust so that they run wherever the project builds: `cargo xtask tidy` checks what the compiler
//! cannot (arrows between crates, dead files, headers, sizes, documents), and `cargo xtask defects` that the simulator finds
//! defects that were repaired.
//!
//! The checks of `tidy` also run as a test of this package. Nothing here is needed to build or use Homeostat.

use std::path::PathBuf;
use std::process::ExitCode;

mod defects;
mod tidy;

const USAGE: &str = "usage: cargo xtask tidy [--lower] | defects [NAME ...]
    tidy            check the source tree; prints file:line, what is wrong and what to do
    tidy --lower    first lower or remove the entries of xtask/ratchet.txt that the code no longer needs
    defects         put repaired defects of the runtime back, all or the named ones, and let the simulator find them";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["tidy"] => check(),
        ["tidy", "--lower"] => match tidy::lower(&root()) {
            Ok(()) => check(),
            Err(message) => fail(&message),
        },
        ["defects", names @ ..] => match defects::run(&root(), names) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => fail("the simulator did not find every defect"),
            Err(message) => fail(&message),
        },
        _ => fail(USAGE),
    }
}

fn check() -> ExitCode {
    match tidy::run(&root()) {
        Ok(report) if report.problems.is_empty() => {
            println!("tidy: {} files in {} packages, no problems", report.files, report.packages);
            ExitCode::SUCCESS
        }
        Ok(report) => {
            for problem in &report.problems {
                println!("{problem}");
            }
            fail(&format!("tidy: {} problems", report.problems.len()))
        }
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// Returns the repository's folder: this package is in a folder directly below it.
fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().map_or(package.clone(), PathBuf::from)
}
