//! `homeostat new`: what it makes is checked by cargo, tests included, and nothing that exists is touched.

use std::path::Path;
use std::process::{Command, Output};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn new(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homeostat"))
        .arg("new")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn a_new_project_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), &["page-operator", "--path", CHECKOUT]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let project = folder.path().join("page-operator");
    // The same versions and profile as here, so that what is built already need not be built again.
    std::fs::copy(Path::new(CHECKOUT).join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let checked = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["check", "--all-targets", "--offline", "--quiet", "--target-dir"])
        .arg(target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .current_dir(&project)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !complaint.contains("warning"), "{complaint}");
}

#[test]
fn what_is_there_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("page")).unwrap();
    let refused = new(folder.path(), &["page"]);
    assert_eq!(refused.status.code(), Some(1));
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(complaint, "error: page is there already: choose another name\n");
    assert_eq!(new(folder.path(), &["Page"]).status.code(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path().join("page")).unwrap().count(), 0);
}
