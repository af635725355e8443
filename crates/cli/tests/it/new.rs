//! `homeostat new`: cargo checks the generated project, including its tests, and existing files are not changed.

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
    let sources = std::fs::canonicalize(Path::new(CHECKOUT).join("crates/homeostat")).unwrap();
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains(&format!("it uses homeostat from {}; --git ", sources.display())), "{said}");
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    assert!(readme.contains(&format!("from the folder `{}`, which other", sources.display())), "{readme}");
    // The same versions and profile as here, so that dependencies need not be built again.
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
fn the_source_of_homeostat_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, place: [&str; 2], line: &str| {
        let made = new(folder.path(), &[name, place[0], place[1]]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let read = |file: &str| std::fs::read_to_string(folder.path().join(name).join(file)).unwrap();
        let (manifest, readme) = (read("Cargo.toml"), read("README.md"));
        assert!(manifest.contains(&format!("\nhomeostat = {line}\n")), "{manifest}");
        assert!(readme.contains(&format!(
            "It uses homeostat {}",
            if line.starts_with('"') { "1.2" } else { "from h" }
        )));
        assert!(!(manifest + &readme).contains("{{"), "every placeholder is filled in");
    };
    check("a", ["--git", "https://git.example/h"], "{ git = \"https://git.example/h\" }");
    check("b", ["--published", "1.2"], "\"1.2\"");
    let two = new(folder.path(), &["c", "--git", "u", "--published", "1"]);
    assert_eq!(two.status.code(), Some(2));
}

#[test]
fn existing_files_are_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("page")).unwrap();
    let refused = new(folder.path(), &["page"]);
    assert_eq!(refused.status.code(), Some(1));
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(complaint, "error: page already exists: choose another name\n");
    assert_eq!(new(folder.path(), &["Page"]).status.code(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path().join("page")).unwrap().count(), 0);
}
