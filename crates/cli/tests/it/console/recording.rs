//! `homeostat sim show --console`: a failing run on the page Time, in a real browser. It opens at the step that made
//! the difference, steps back and forward, and shows the objects as they were. Two tests need no browser: clients
//! without the token are refused, and so is a file without states.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::browser_script;

/// What a run records: a page is created, its status is written, a fault occurs, and the status is wrong.
fn recorded_run() -> Value {
    let object = |revision: u64, words: &str| {
        json!({
            "apiVersion": "demo.dev/v1", "kind": "Page",
            "metadata": {"name": "home", "namespace": "default", "uid": "u-1", "resourceVersion": revision.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": words},
        })
    };
    let change = |at: u64, revision: u64, actor: &str, object: Value| json!({"at": at, "actor": actor, "revision": revision, "key": "demo.dev/pages/default/home", "object": object});
    let secret = json!({"at": 20, "actor": "you", "revision": 12, "key": "/secrets/default/password", "object": {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password", "namespace": "default", "uid": "u-2"}, "data": {"password": "aHVudGVyMg=="},
    }});
    json!({
        "lines": [
            {"at": 0, "actor": "you", "text": "create pages.demo.dev default/home"},
            {"at": 1500, "actor": "FAULT", "text": "the answer is lost", "isFault": true, "isDecisive": true},
            {"at": 4000, "actor": "operator", "text": "update status → 409"},
        ],
        "changes": [
            change(10, 11, "you", object(11, "Pending")), secret,
            change(1000, 13, "operator", object(13, "Half")), change(3000, 14, "operator", object(14, "Wrong")),
        ],
        "omitted": 0,
    })
}

fn test_trace() -> Value {
    json!({
        "homeostatTrace": 1, "simulation": "pages_survive", "seed": 1, "steps": [], "deviations": [], "oracle": "same end",
        "subject": "pages default/home", "package": "pages", "test": "tests::pages_survive", "report": "FAILED pages_survive",
        "run": recorded_run(),
    })
}

fn show(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command.args(["sim", "show", "--console"]).arg(file).kill_on_drop(true).stdout(Stdio::piped());
    command
}

/// Shows a saved failure; returns the process and the address of its page.
async fn start(folder: &Path, trace: &Value) -> (Child, String) {
    let file = folder.join("saved.json");
    std::fs::write(&file, trace.to_string()).unwrap();
    let mut process = show(&file).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("the address is printed");
        if let Some(url) = line.strip_prefix("console=") {
            break url.to_owned();
        }
    };
    (process, url)
}

#[tokio::test]
async fn a_failing_run_opens_at_the_step_that_made_the_difference() {
    let Some(mut script) = browser_script("recording.mjs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut process, url) = start(folder.path(), &test_trace()).await;
    let output = script.arg(&url).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for list in ["violations", "complaints", "strangers"] {
        assert_eq!(found[list], json!([]), "{list}");
    }
    let texts = |name: &str| found[name].as_str().unwrap_or_else(|| panic!("{name} in {found}")).to_owned();
    assert!(texts("decisive").contains("This makes the difference: the answer is lost"), "{found}");
    assert!(texts("title").starts_with("Revision 13 1.500 s into the run; 7 steps"), "{found}");
    // The page when the fault happened, before it, and at the end.
    assert!(texts("then").contains("Half"), "{found}");
    assert!(texts("before").contains("Pending"), "{found}");
    assert!(texts("end").contains("Wrong"), "{found}");
    assert_eq!(found["hasSecret"], false);
    assert_eq!(found["versions"], 3, "{found}");
    process.kill().await.unwrap();
}

#[tokio::test]
async fn only_its_own_token_opens_a_recorded_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = test_trace();
    let (mut process, url) = start(folder.path(), &trace).await;
    let (address, token) = url.split_once("/#token=").unwrap();
    let code = async |token: &str| {
        let request = format!(
            "GET /api/past HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let mut stream = tokio::net::TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        let mut head = String::new();
        BufReader::new(stream).read_line(&mut head).await.unwrap();
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((code("nonsense").await, code(token).await), ("401".to_owned(), "200".to_owned()));
    process.kill().await.unwrap();

    trace.as_object_mut().unwrap().remove("run");
    let file = folder.path().join("old.json");
    std::fs::write(&file, trace.to_string()).unwrap();
    let output = show(&file).stderr(Stdio::piped()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("old.json has a report only, no states"), "{told}");
}
