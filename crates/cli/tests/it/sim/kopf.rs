//! The Kopf operators of `examples/kopf`: the bug of the broken one is found, and the cured one survives.

use std::path::{Path, PathBuf};

use homeostat::testing::skip_without;

use super::{check_found, sim_run};

/// Returns the example's folder if Kopf is on the path.
fn example() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let kopf = std::env::split_paths(&path).map(|folder| folder.join("kopf")).find(|file| file.is_file());
    skip_without(
        kopf,
        "Kopf",
        "pip install -r scripts/requirements.txt, in a venv whose bin is first in PATH",
    )?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kopf"))
}

/// Runs the simulator on one of the operators.
async fn break_operator(folder: &Path, operator: &str, arguments: &[&str]) -> super::Told {
    let save = tempfile::tempdir().unwrap();
    let save = save.path().join("failure.json");
    let command = format!("kopf run --standalone --all-namespaces {operator}");
    let mut all = vec!["--exec", &*command, "--scenario", "scenario.yaml", "--save", save.to_str().unwrap()];
    all.extend(arguments);
    sim_run(folder, &all).await
}

#[tokio::test]
async fn the_bug_of_the_broken_one_is_found() {
    let Some(folder) = example() else { return };
    let told = break_operator(&folder, "operator_broken.py", &[]).await;
    assert_eq!(told.code, Some(1), "{}", told.text);
    check_found(&told, "justified creation", &["create configmaps default/home-*", "2 time(s)"]);
}

#[tokio::test]
async fn the_cured_one_survives() {
    let Some(folder) = example() else { return };
    // Kopf takes seconds to start, so CI only tries the faults that find most bugs.
    let told = break_operator(&folder, "operator_cured.py", &["--runs", "12"]).await;
    assert_eq!(told.code, Some(0), "{}", told.text);
    assert!(told.text.contains("no failure found: 12 runs"), "{}", told.text);
}
