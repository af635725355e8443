//! `homeostat why` on real processes: each test plants faults that happen in practice, and the first line must name the
//! true cause.

mod admission;
mod faulty_operator;
pub(crate) mod in_pods;
pub(crate) mod operators;
mod pods;
mod readers;
mod states;

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::server::PATIENCE;

/// Returns what `homeostat why` prints, whatever its exit code.
pub(crate) async fn why(kubeconfig: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command
        .arg("why")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Runs it until the first line of the explanation contains all these words; returns the explanation.
pub(crate) async fn names(kubeconfig: &Path, arguments: &[&str], words: &[&str]) -> String {
    let last = std::sync::Mutex::new(String::new());
    let asked = async {
        loop {
            let text = why(kubeconfig, arguments).await;
            let first = text.lines().next().unwrap_or_default();
            if words.iter().all(|word| first.contains(word)) {
                return text;
            }
            *last.lock().unwrap() = text;
        }
    };
    let named = tokio::time::timeout(PATIENCE, asked).await;
    named.unwrap_or_else(|_| {
        panic!("why {arguments:?} does not say {words:?} in its first line but:\n{}", last.lock().unwrap())
    })
}
