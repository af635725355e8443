//! `homeostat sim show` and `homeostat sim replay`: saved failures. A program in place of cargo prints how it was
//! called, so that no test compiles another.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{Told, sim};

/// Saves this as a file and calls `homeostat sim` with it.
async fn sim_with(subcommand: &str, text: &str) -> Told {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("saved.json"), text).unwrap();
    sim(folder.path(), &[subcommand, "saved.json"], &[]).await
}

fn test_trace() -> serde_json::Value {
    json!({
        "homeostatTrace": 1, "simulation": "pages_survive", "seed": 1, "steps": [], "deviations": [], "oracle": "same end",
        "subject": "configmaps default/home", "package": "pages", "test": "tests::pages_survive",
        "report": "FAILED pages_survive\n\n 0.000s FAULT  ◀ this makes the difference\n",
    })
}

#[tokio::test]
async fn files_that_are_not_saved_failures_are_refused() {
    let mut later = test_trace();
    later["homeostatTrace"] = json!(7);
    let mut damaged = test_trace();
    damaged["simulation"] = json!(7);
    let rows = [
        ("{", "saved.json is no JSON: "),
        ("{}", "saved.json is no failure that a simulation saved"),
        ("[1]", "saved.json is no failure that a simulation saved"),
        (&later.to_string(), "saved.json has format 7, this program knows 1"),
        (&damaged.to_string(), "saved.json is damaged: "),
        ("{\"homeostatExecTrace\": 1}", "saved.json is no failure that `homeostat sim run` saved: "),
    ];
    for (text, words) in rows {
        for subcommand in ["show", "replay"] {
            let told = sim_with(subcommand, text).await;
            assert_eq!(told.code, Some(2), "{}", told.text);
            assert!(told.text.contains(words), "{words} is not in: {}", told.text);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let told = sim(folder.path(), &["show", "nothing.json"], &[]).await;
    assert_eq!(told.code, Some(2));
    assert!(told.text.contains("nothing.json cannot be read: "), "{}", told.text);
}

#[tokio::test]
async fn the_report_of_a_test_is_shown() {
    let told = sim_with("show", &test_trace().to_string()).await;
    assert_eq!(told.code, Some(0), "{}", told.text);
    assert!(
        told.text.starts_with("test tests::pages_survive of pages\n\nFAILED pages_survive"),
        "{}",
        told.text
    );
    assert!(told.text.contains("◀ this makes the difference"), "{}", told.text);
}

/// Replays the trace of a test with this script in place of cargo.
async fn replay_with(cargo: &str) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("cargo");
    std::fs::write(&program, format!("#!/bin/sh\n{cargo}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("saved.json"), test_trace().to_string()).unwrap();
    sim(folder.path(), &["replay", "saved.json"], &[("CARGO", program.to_str().unwrap())]).await
}

#[tokio::test]
async fn a_test_is_run_again() {
    let ran = r#"
        case "$*" in
            "test --tests --package pages --no-run") exit 0;;
            "test --tests --package pages tests::pages_survive -- --exact --nocapture") ;;
            *) echo "called with $*"; exit 1;;
        esac
        case "$HOMEOSTAT_REPLAY" in /*/saved.json) ;; *) exit 1;; esac
        echo "test tests::pages_survive ... "
    "#;
    let explored = replay_with(ran).await;
    assert_eq!(explored.code, Some(3), "{}", explored.text);
    assert!(explored.text.contains("does not simulate pages_survive any more"), "{}", explored.text);
    let ran = &format!("{ran}\necho replayed the trace of pages_survive >&2");
    let passed = replay_with(ran).await;
    assert_eq!(passed.code, Some(0), "{}", passed.text);
    assert!(
        passed.text.contains("no failure: with the same faults, tests::pages_survive passes"),
        "{}",
        passed.text
    );
    let failed = replay_with(&format!("{ran}\necho the whole story; exit 101")).await;
    assert_eq!(failed.code, Some(1), "{}", failed.text);
    assert!(failed.text.contains("the whole story"), "{}", failed.text);
    let changed = replay_with(&format!("{ran}\necho the trace no longer fits: step 7; exit 101")).await;
    assert_eq!(changed.code, Some(3), "{}", changed.text);
    assert!(changed.text.contains("no longer fits the operator: step 7\n"), "{}", changed.text);
    let gone = replay_with("exit 0").await;
    assert_eq!(gone.code, Some(2), "{}", gone.text);
    assert!(gone.text.contains("pages has no test tests::pages_survive any more"), "{}", gone.text);
    let broken = replay_with("exit 101").await;
    assert_eq!(broken.code, Some(2), "{}", broken.text);
    assert!(broken.text.contains("the tests of pages cannot be built"), "{}", broken.text);
}
