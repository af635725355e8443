//! The command `plan` of an operator's own program.

use std::process::Command;

use crate::programs::{Server, eventually, example, operator};

const GREETING: &str =
    "apiVersion: demo.dev/v1\nkind: Greeting\nmetadata: {name: one}\nspec: {text: hello}\n";

/// Runs the program's `plan` on this server; returns its exit code, stdout and stderr.
fn plan(server: &Server, more: &[&str]) -> (Option<i32>, String, String) {
    let folder = server.kubeconfig.parent().unwrap().parent().unwrap();
    std::fs::write(folder.join("greeting.yaml"), GREETING).unwrap();
    let output = Command::new(example("greeting"))
        .args(["plan", "-f", "greeting.yaml", "--kubeconfig"])
        .arg(&server.kubeconfig)
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_operator_plans_before_it_is_installed_and_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (code, text, complaints) = plan(&server, &[]);
    assert_eq!(code, Some(2), "{text}{complaints}");
    // Nothing is installed yet, so the operator itself would install its definition.
    assert!(text.starts_with("Even without the change (the cluster is not at rest):\n"), "{text}");
    for line in [
        "+ CustomResourceDefinition greetings.demo.dev (created)\n",
        "+ Greeting default/one (created)\n",
        "+ ConfigMap default/one (created, of Greeting one)\n",
        "    data.text = \"hello\"\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert_eq!(server.try_kubectl(&["get", "crd", "greetings.demo.dev"], ""), None, "it only lists");

    let kubeconfig = server.kubeconfig.to_str().unwrap();
    let _running = operator(folder.path(), "greeting", &["--kubeconfig", kubeconfig], &[]);
    eventually("the kind is served and takes the greeting", || {
        server.try_kubectl(&["apply", "--server-side", "-f", "-"], GREETING)
    });
    eventually("the page is there and nothing is left to do", || {
        let (code, text, _) = plan(&server, &[]);
        (code == Some(0) && text.starts_with("Nothing would change.\n")).then_some(())
    });
    let (code, text, _) = plan(&server, &["--delete"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("- ConfigMap default/one (DELETED, of Greeting one)\n"), "{text}");
    let (code, _, complaints) = plan(&server, &["--delete", "--max-deletes", "1"]);
    let refusal = "Error: 2 objects would be deleted or replaced, and --max-deletes allows 1\n";
    assert_eq!((code, complaints.as_str()), (Some(1), refusal));
}
