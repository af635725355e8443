//! Applies the output of `manifests` to a server with a node: the operator runs there as in a cluster, with only its
//! own account.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use homeostat::embedded::{ControlPlane, NodeOptions};

use crate::programs::{Kubectl, Server, example, homeostat};

const IMAGE: &str = "registry.example/greeting:1";
const HOME: &str = "greeting-system";

/// Returns a copy of the operator that any user can run, because its Deployment does not run as root.
fn installed(folder: &Path) -> PathBuf {
    let program = folder.join("greeting");
    std::fs::copy(example("greeting"), &program).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn manifests(program: &Path) -> String {
    let printed =
        Command::new(program).args(["manifests", "--image", IMAGE, "--namespace", HOME]).output().unwrap();
    assert!(printed.status.success());
    String::from_utf8(printed.stdout).unwrap()
}

/// Checks that the Deployment is up and the operator does its work.
fn check(kubectl: &Kubectl, manifests: &str) {
    kubectl.run(&["apply", "-f", "-"], manifests);
    let deployment = "deployment/greeting.demo.dev";
    let rolled =
        kubectl.attempt(&["rollout", "status", deployment, "--namespace", HOME, "--timeout=60s"], "");
    let said = || kubectl.run(&["logs", deployment, "--namespace", HOME], "");
    assert!(rolled.is_some(), "{}", said());
    let greeting = "apiVersion: demo.dev/v1\nkind: Greeting\nmetadata: {name: one}\nspec: {text: hello}\n";
    kubectl.run(&["apply", "-f", "-"], greeting);
    let page = ["wait", "--for=create", "configmap/one", "--timeout=60s"];
    assert!(kubectl.attempt(&page, "").is_some(), "{}", said());
    assert!(!said().contains("may not"), "{}", said());
}

#[test]
fn its_deployment_runs_unchanged_on_our_own_node() {
    let folder = tempfile::tempdir().unwrap();
    let program = installed(folder.path());
    let mut server = Server::with_node(folder.path(), IMAGE, &program);
    check(&server.administrator(), &manifests(&program));
    server.program.terminate();
}

/// Without mount namespaces, the account's files are not at the usual path; `--in-cluster` finds them anyway.
#[test]
fn in_cluster_is_found_without_mount_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    let program = installed(folder.path());
    let kubeconfig = folder.path().join("kubeconfig");
    let options = NodeOptions::new()
        .without_namespaces()
        .folder(folder.path().join("node"))
        .supervisor(homeostat())
        .image(IMAGE, [program.display().to_string()]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plane = ControlPlane::builder()
        .listen((Ipv4Addr::LOCALHOST, 0).into(), &kubeconfig)
        .workloads(true)
        .node(options);
    let plane = runtime.block_on(plane.start()).unwrap();
    let kubectl = Kubectl { kubeconfig, folder: folder.path().to_owned() };
    // Another user could not read these files, because they are in the node's own folder.
    let own_user = manifests(&program).replace(r#""runAsNonRoot": true"#, r#""runAsNonRoot": false"#);
    check(&kubectl, &own_user);
    runtime.block_on(plane.stop()).unwrap();
}
