//! How the program of an operator handles its command line: what it prints where, and how it ends.

use std::process::{Command, Output};

use crate::programs::example;

/// Runs the example in an empty folder without a configured cluster until it ends by itself.
fn run(arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(example("greeting"))
        .args(arguments)
        .current_dir(folder.path())
        .env("KUBECONFIG", "/nowhere/at/all")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("HOMEOSTAT_SERVICE_ACCOUNT")
        .output()
        .unwrap();
    (output, folder)
}

/// Checks that it succeeds, prints this, writes nothing to stderr and leaves nothing behind.
#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let (output, folder) = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that it ends with 1, like every error of `main`, and prints only this, to stderr.
#[track_caller]
fn refused(arguments: &[&str], expected: &str) {
    let (output, _folder) = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{arguments:?}");
}

#[test]
fn help_names_everything_it_understands() {
    let help = printed(&["--help"]);
    assert!(help.starts_with("The operator greeting.demo.dev: "), "{help}");
    for words in [
        "Usage: greeting [OPTIONS] ",
        "greeting manifests [OPTIONS] ",
        "--kubeconfig FILE",
        "--in-cluster",
        "--serve ADDRESS",
        "--image IMAGE",
        "--namespace NAMESPACE",
        "-h, --help",
        "-V, --version",
    ] {
        assert!(help.contains(words), "{words} is not in\n{help}");
    }
    for same in [["-h"], ["help"]] {
        assert_eq!(printed(&same), help);
    }
    assert_eq!(printed(&["manifests", "--help"]), help);
}

#[test]
fn the_version_is_that_of_the_framework() {
    let expected = format!("greeting.demo.dev, built with homeostat {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&["--version"]), expected);
    assert_eq!(printed(&["-V"]), expected);
}

#[test]
fn unknown_and_invalid_arguments_are_named() {
    refused(&["--fly"], "Error: unknown argument --fly; try --help\n");
    refused(&["fly"], "Error: unknown argument fly; try --help\n");
    refused(&["--image", "i:1"], "Error: unknown argument --image; try --help\n");
    refused(&["manifests", "--kubeconfig", "k"], "Error: unknown argument --kubeconfig; try --help\n");
    refused(&["--kubeconfig"], "Error: --kubeconfig needs a value; try --help\n");
    let serve = "Error: here is not an address with a port, such as 127.0.0.1:8080; try --help\n";
    refused(&["--serve", "here"], serve);
    let namespace = "Error: Bad_NS is not a valid namespace: use lower-case letters, digits and inner dashes, at most 63 \
                     characters, for example my-system; try --help\n";
    refused(&["manifests", "--namespace", "Bad_NS"], namespace);
}

#[test]
fn a_cluster_that_cannot_be_read_is_named() {
    for arguments in [&["--kubeconfig", "/nowhere/else"][..], &[], &["--in-cluster"]] {
        let (output, folder) = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let place = match arguments {
            [_, file] => file,
            [] => "/nowhere/at/all",
            _ => "the account of this Pod",
        };
        assert!(said.starts_with(&format!("Error: no cluster: {place}: ")), "{said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no control plane was started");
    }
}

#[test]
fn manifests_need_no_server() {
    let manifests = printed(&["manifests", "--image", "registry.example/greeting:1"]);
    for words in
        ["\"CustomResourceDefinition\"", "\"Deployment\"", "registry.example/greeting:1", "\"events\""]
    {
        assert!(manifests.contains(words), "{words} is not in\n{manifests}");
    }
    let namespaced = printed(&["manifests", "--namespace", "here"]);
    assert!(
        namespaced.contains("\"namespace\": \"here\"") && namespaced.contains("greeting.demo.dev:latest")
    );
}

#[tokio::test]
async fn a_program_without_a_control_plane_says_what_a_plan_needs() {
    let operator = homeostat::Operator::new("plain.demo.dev").arguments(["plan", "-f", "change.yaml"]);
    let refusal = operator.run().await.unwrap_err().to_string();
    assert!(refusal.contains("cannot plan") && refusal.contains("feature `embedded`"), "{refusal}");
}
