//! What the program prints for machines.

use std::process::Command;

use serde_json::{Value, json};

fn run(arguments: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_homeostat-zoo")).args(arguments).output().expect("it starts");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn json_has_the_promised_keys() {
    let (code, text) = run(&["--json", "--only", "clock_in", "--schedules", "5"]);
    assert_eq!(code, 0, "{text}");
    let mut printed: Value = serde_json::from_str(&text).expect("JSON");
    let animal = &mut printed["animals"][0];
    assert!(animal["seconds"].take().as_f64().is_some_and(|seconds| seconds > 0.0), "{text}");
    let expected = json!({"animals": [{
        "name": "clock_in_the_status", "found": true, "schedules": 2, "seconds": null, "steps": 1, "cured_alarms": 0,
    }]});
    assert_eq!(printed, expected);
}

#[test]
fn an_unknown_name_is_refused() {
    assert_eq!(run(&["--only", "unicorn"]).0, 2);
}
