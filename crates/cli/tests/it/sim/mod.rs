//! `homeostat sim run`: finds what broken operators do not survive, reports nothing for cured ones, and repeats what it
//! found. Without Python; the Kopf operators are in `kopf`.

mod copier;
mod kopf;
mod saved;

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;
use tokio::process::Command;

/// The steps of the user. Times are short, because those of the operator are.
const SCENARIO: &str = "
steps:
- create:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: home, namespace: default, labels: {role: source}}
    data: {text: hello}
- edit: {apiVersion: v1, kind: ConfigMap, metadata: {name: home, namespace: default}, data: {text: bye}}
eventually:
- {count: configmaps, selector: role=copy, where: {data.text: bye}, exactly: 1}
patience: 5
settle: 1
rest: 1
";

/// The output of one `homeostat sim run`.
struct Told {
    code: Option<i32>,
    text: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let parts =
            [&output.stdout[..], &output.stderr[..]].map(|part| String::from_utf8_lossy(part).into_owned());
        Self { code: output.status.code(), text: parts.concat() }
    }
}

/// Runs `homeostat sim run` in the folder.
async fn sim_run(folder: &Path, arguments: &[&str]) -> Told {
    sim(folder, &[&["run"], arguments].concat(), &[]).await
}

/// Runs `homeostat sim` in the folder, with these environment variables.
async fn sim(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command.arg("sim").args(arguments).envs(variables.iter().copied()).current_dir(folder);
    command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap().into()
}

/// Runs the copier with a behaviour and these sorts of faults.
async fn break_copier(behaviour: &str, scenario: &str, arguments: &[&str]) -> (tempfile::TempDir, Told) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.yaml"), scenario).unwrap();
    let command = copier::command(behaviour);
    let mut all = vec!["--exec", &command, "--scenario", "scenario.yaml", "--jobs", "2"];
    all.extend(arguments);
    let told = sim_run(folder.path(), &all).await;
    (folder, told)
}

#[track_caller]
fn check_found(told: &Told, rule: &str, words: &[&str]) {
    assert_eq!(told.code, Some(1), "{}", told.text);
    assert!(told.text.contains(&format!("FAILED: {rule}\n")), "{}", told.text);
    for word in words {
        assert!(told.text.contains(word), "no {word:?} in:\n{}", told.text);
    }
}

#[tokio::test]
async fn the_cured_operator_survives() {
    let (_folder, told) = break_copier("cured", SCENARIO, &["--runs", "24"]).await;
    assert_eq!(told.code, Some(0), "{}", told.text);
    assert!(told.text.contains("no failure found: 24 runs with faults"), "{}", told.text);
}

/// A saved failure contains the states of an object that the operator created, and one step that made the difference.
#[track_caller]
fn check_saved_run(file: &Path, created: &str) {
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let changes = saved["run"]["changes"].as_array().expect("the changes are saved");
    let is_created = |change: &serde_json::Value| {
        let name = change["object"]["metadata"]["name"].as_str();
        change["actor"] == "operator" && name.is_some_and(|name| name.starts_with(created))
    };
    assert!(changes.iter().any(is_created), "{changes:#?}");
    let lines = saved["run"]["lines"].as_array().expect("the timeline is saved");
    assert_eq!(lines.iter().filter(|line| line["isDecisive"] == true).count(), 1, "{lines:#?}");
}

#[tokio::test]
async fn a_lost_answer_that_leads_to_a_second_creation_is_found_and_repeats() {
    let (folder, told) = break_copier("generating", SCENARIO, &["--faults", "timeout"]).await;
    let fault = "create configmaps default/home-copy-* #1: done, but answered with 504 Timeout";
    check_found(
        &told,
        "justified creation",
        &[fault, "home-copy-* 2 time(s)", "name derived from the owner"],
    );
    check_saved_run(&folder.path().join("homeostat-sim-failure.json"), "home-copy-");
    let again = sim_run(folder.path(), &["--replay", "homeostat-sim-failure.json"]).await;
    check_found(&again, "justified creation", &["the same failure again"]);
    let cured = copier::command("cured");
    // The cured operator generates no names, so the request whose answer should be lost is never sent.
    let told = sim_run(folder.path(), &["--replay", "homeostat-sim-failure.json", "--exec", &cured]).await;
    assert_eq!(told.code, Some(3), "{}", told.text);
    assert!(
        told.text.contains("these faults did not happen:\n  at \"create configmaps default/home-copy-* #1\"")
    );
}

#[tokio::test]
async fn work_that_a_kill_interrupts_for_good_is_found() {
    let (_folder, told) = break_copier("marked", &without_edit(), &["--faults", "kill"]).await;
    check_found(
        &told,
        "same end",
        &["configmaps default/home-copy: is missing", "kill -9", "operator  starts"],
    );
}

#[tokio::test]
async fn a_deletion_that_is_missed_while_down_is_found() {
    let (_folder, told) = break_copier("leaky", SCENARIO, &["--faults", "restart"]).await;
    let words = ["at \"cleanup\": the operator is killed", "home-copy: should not be there"];
    check_found(&told, "same end", &words);
}

#[tokio::test]
async fn a_watch_that_ends_for_good_is_found() {
    let (_folder, told) = break_copier("deaf", SCENARIO, &["--faults", "watch"]).await;
    check_found(&told, "same end", &["the watch ends with 410 Expired before this event"]);
}

#[tokio::test]
async fn an_operator_that_a_500_ends_is_found() {
    let (_folder, told) = break_copier("fragile", SCENARIO, &["--faults", "refuse"]).await;
    check_found(&told, "keeps running", &["answered with 500, not done", "| after ", "exit status: 3"]);
}

#[tokio::test]
async fn a_conflict_that_is_not_retried_is_found() {
    let (_folder, told) = break_copier("careless", SCENARIO, &["--faults", "conflict"]).await;
    let words = [
        "update configmaps default/home-copy #1: answered with 409 Conflict",
        "expected \"bye\", is \"hello\"",
    ];
    check_found(&told, "same end", &words);
}

#[tokio::test]
async fn a_broken_connection_that_is_not_retried_is_found() {
    let (_folder, told) = break_copier("careless", SCENARIO, &["--faults", "connection"]).await;
    check_found(&told, "same end", &["the connection breaks"]);
}

/// Repeats a saved failure that consists of one fault, which a careless operator does not survive.
async fn check_fault(at: &str, fault: serde_json::Value, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut deviation = fault;
    deviation["at"] = at.into();
    let scenario: serde_json::Value = serde_saphyr::from_str(SCENARIO).unwrap();
    let saved = json!({
        "homeostatExecTrace": 1, "command": copier::command("careless"), "scenario": scenario, "seed": 1,
        "faults": [deviation], "oracle": "same end", "subject": "configmaps default/home-copy",
    });
    std::fs::write(folder.path().join("saved.json"), saved.to_string()).unwrap();
    let told = sim_run(folder.path(), &["--replay", "saved.json"]).await;
    check_found(&told, "same end", &[&format!("at \"{at}\": {expected}"), "the same failure again"]);
    let cured = copier::command("cured");
    let told = sim_run(folder.path(), &["--replay", "saved.json", "--exec", &cured]).await;
    assert_eq!(told.code, Some(0), "{}", told.text);
}

#[tokio::test]
async fn a_fault_hits_the_request_that_a_saved_failure_names() {
    let at = "update configmaps default/home-copy #1";
    tokio::join!(
        // Not 429 and 504: the client of the kube crate retries after those by itself.
        check_fault(at, json!({"do": "refuse", "code": 500}), "answered with 500, not done"),
        check_fault(at, json!({"do": "lose-request"}), "not done, the connection breaks"),
    );
}

#[tokio::test]
async fn a_loop_without_a_pause_is_found() {
    let (_folder, told) = break_copier("hasty", SCENARIO, &["--faults", "outage"]).await;
    check_found(&told, "no hot loop", &["every request is answered with 500 for 2000 ms"]);
}

#[tokio::test]
async fn a_deletion_that_an_old_list_leads_to_is_found() {
    let (_folder, told) = break_copier("tidy", SCENARIO, &["--faults", "stale"]).await;
    check_found(
        &told,
        "justified deletion",
        &["the operator deleted configmaps default/home-copy 1 time(s)"],
    );
}

#[tokio::test]
async fn writes_at_rest_and_leaks_need_no_fault() {
    let scenario = without_edit();
    let ((_one, restless), (_other, leaving)) =
        tokio::join!(break_copier("restless", &scenario, &[]), break_copier("leaving", SCENARIO, &[]));
    check_found(
        &restless,
        "converges",
        &["it happens without any fault", "the last change was of configmaps default/home-copy"],
    );
    check_found(&leaving, "no leak", &["configmaps default/home-copy is left", "owner reference"]);
}

#[tokio::test]
async fn conditions_are_watched() {
    let always = format!("{SCENARIO}\nalways:\n- {{count: configmaps, selector: role=copy, atMost: 0}}\n");
    let eventually = SCENARIO.replace("exactly: 1", "exactly: 2");
    let ((_one, always), (_other, eventually)) =
        tokio::join!(break_copier("cured", &always, &[]), break_copier("cured", &eventually, &[]));
    check_found(
        &always,
        "always",
        &["there were 1; there must always be at most 0 configmaps with role=copy"],
    );
    check_found(&eventually, "eventually", &["exactly 2 configmaps", "there are 1"]);
}

#[tokio::test]
async fn what_cannot_be_tried_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.yaml"), SCENARIO).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "steps: [{create: {kind: Page}}]").unwrap();
    let rows: [(&[&str], &str); 6] = [
        (&["--scenario", "good.yaml"], "--exec <COMMAND>"),
        (&["--exec", "true", "--scenario", "none.yaml"], "none.yaml cannot be read"),
        (&["--exec", "true", "--scenario", "bad.yaml"], "step 1 has no apiVersion"),
        (
            &["--exec", "echo no such operator; exit 4", "--scenario", "good.yaml"],
            "ended with exit status: 4 before its first request; it printed:\n  no such operator",
        ),
        (
            &["--exec", "sleep 600", "--scenario", "good.yaml", "--save", "no/such/folder.json"],
            "a failure could not be saved as no/such/folder.json: No such file or directory",
        ),
        (&["--replay", "good.yaml"], "is no failure that `homeostat sim run` saved"),
    ];
    for (arguments, expected) in rows {
        let told = sim_run(folder.path(), arguments).await;
        assert_eq!(told.code, Some(2), "{}", told.text);
        assert!(told.text.contains(expected), "no {expected:?} in:\n{}", told.text);
    }
}

/// Returns the scenario with its first step only.
fn without_edit() -> String {
    let lines = SCENARIO.lines().filter(|line| !line.starts_with("- edit"));
    lines.collect::<Vec<_>>().join("\n").replace("data.text: bye", "data.text: hello")
}
