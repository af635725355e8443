//! One operator in its own process: against a server in another process, with the rights that its manifests grant, and
//! through a crash of that server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{Program, Server, eventually, example, operator};

/// The namespace of the operator.
const HOME: &str = "greeting-system";

fn greeting(name: &str, text: &str) -> String {
    format!("apiVersion: demo.dev/v1\nkind: Greeting\nmetadata: {{name: {name}}}\nspec: {{text: {text}}}\n")
}

/// Checks that the greeting is applied and its page has the text.
#[track_caller]
fn greet(server: &Server, name: &str, text: &str) {
    eventually("the kind is served and takes the greeting", || {
        server.try_kubectl(&["apply", "-f", "-"], &greeting(name, text))
    });
    eventually("the page says the text", || {
        let page = server.try_kubectl(&["get", "configmap", name, "-o", "jsonpath={.data.text}"], "")?;
        (page == text).then_some(())
    });
}

/// Returns a page of the admin server of this operator.
fn page(operator: &Program, path: &str) -> String {
    let address = eventually("the admin pages are served", || {
        let log = operator.log();
        let rest = log.split("address=").nth(1)?;
        Some(rest.split_whitespace().next()?.to_owned())
    });
    let mut stream = TcpStream::connect(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
    write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_operator_survives_a_crash_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let kubeconfig = server.kubeconfig.to_str().unwrap().to_owned();
    let mut operator =
        operator(folder.path(), "greeting", &["--kubeconfig", &kubeconfig, "--serve", "127.0.0.1:0"], &[]);
    greet(&server, "one", "hello");
    let start = format!("greeting.demo.dev reconciles greetings.demo.dev on {} as ", server.url());
    assert!(operator.log().contains(&start), "{start} is not in\n{}", operator.log());
    assert!(page(&operator, "/healthz").starts_with("HTTP/1.1 200"));
    eventually("it is ready", || page(&operator, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    let metrics = page(&operator, "/metrics");
    assert!(
        metrics.contains("controller_runtime_reconcile_total{controller=\"greeting\",result=\"success\"}")
    );
    let journal = "/journal?group=demo.dev&resource=greetings&namespace=default&name=one";
    assert!(page(&operator, journal).starts_with("HTTP/1.1 401"), "the journal needs a token");

    server.program.kill();
    eventually("it notices", || page(&operator, "/readyz").starts_with("HTTP/1.1 503").then_some(()));
    assert!(operator.is_running() && page(&operator, "/healthz").starts_with("HTTP/1.1 200"));
    let lost = ["cannot watch demo.dev/greetings", "cannot watch configmaps"];
    for words in lost {
        eventually(words, || operator.log().contains(words).then_some(()));
    }
    server.restart();
    greet(&server, "two", "again");
    greet(&server, "one", "changed");
    eventually("it is ready again", || page(&operator, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    assert!(operator.is_running());
    let log = operator.log();
    assert!(!log.contains("kube_client"), "{log}");
    for words in lost {
        assert_eq!(log.matches(words).count(), 1, "the outage is logged once:\n{log}");
    }
}

/// Returns a kubeconfig with the token of the operator's account.
fn kubeconfig_of_account(server: &Server, folder: &Path, account: &str) -> PathBuf {
    let token = server.kubectl(&["create", "token", account, "--namespace", HOME], "");
    let own = folder.join(format!("{account}.kubeconfig"));
    std::fs::copy(&server.kubeconfig, &own).unwrap();
    let config = |arguments: &[&str]| {
        let set = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&own)
            .arg("config")
            .args(arguments)
            .output()
            .unwrap();
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    };
    config(&["set-credentials", "robot", "--token", token.trim()]);
    config(&["set-context", "--current", "--user", "robot", "--namespace", HOME]);
    own
}

#[test]
fn manifests_grant_sufficient_rights_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifests = Command::new(example("greeting"))
        .args(["manifests", "--image", "registry.example/greeting:1", "--namespace", HOME])
        .output()
        .unwrap();
    assert!(manifests.status.success());
    let manifests = String::from_utf8(manifests.stdout).unwrap();
    let applied = server.kubectl(&["apply", "-f", "-"], &manifests);
    for line in [
        "namespace/greeting-system created",
        "customresourcedefinition.apiextensions.k8s.io/greetings.demo.dev created",
        "serviceaccount/greeting.demo.dev created",
        "clusterrole.rbac.authorization.k8s.io/greeting.demo.dev created",
        "deployment.apps/greeting.demo.dev created",
    ] {
        assert!(applied.contains(line), "{line} is not in\n{applied}");
    }
    let again = server.kubectl(&["apply", "-f", "-"], &manifests);
    assert!(!again.contains("created"), "a second apply changes nothing:\n{again}");

    let own = kubeconfig_of_account(&server, folder.path(), "greeting.demo.dev");
    let operator = operator(
        folder.path(),
        "greeting",
        &["--kubeconfig", own.to_str().unwrap(), "--serve", "127.0.0.1:0"],
        &[],
    );
    greet(&server, "one", "hello");
    eventually("it is ready", || page(&operator, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    let log = operator.log();
    assert!(!log.contains("may not") && !log.contains("WARN"), "{log}");
    let account = format!("--as=system:serviceaccount:{HOME}:greeting.demo.dev");
    for (verb, resource, expected) in [
        ("list", "greetings.demo.dev", true),
        ("delete", "greetings.demo.dev", false),
        ("list", "secrets", false),
    ] {
        let answer = server.try_kubectl(&["auth", "can-i", verb, resource, "--all-namespaces", &account], "");
        assert_eq!(answer.is_some(), expected, "{verb} {resource}");
    }
}

#[test]
fn missing_rights_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let manifests =
        Command::new(example("greeting")).args(["manifests", "--namespace", HOME]).output().unwrap();
    server.kubectl(&["apply", "-f", "-"], &String::from_utf8(manifests.stdout).unwrap());
    let role = r#"[{"op": "replace", "path": "/rules", "value": [
        {"apiGroups": ["demo.dev"], "resources": ["greetings"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]}]"#;
    server.kubectl(&["patch", "clusterrole", "greeting.demo.dev", "--type", "json", "--patch", role], "");
    let own = kubeconfig_of_account(&server, folder.path(), "greeting.demo.dev");
    let operator = operator(folder.path(), "greeting", &["--kubeconfig", own.to_str().unwrap()], &[]);
    for words in [
        "this operator may not list configmaps in all namespaces",
        "this operator may not create configmaps in all namespaces",
        "this operator may not update greetings/finalizers.demo.dev in all namespaces",
    ] {
        eventually(words, || operator.log().contains(words).then_some(()));
    }
    let log = operator.log();
    assert!(
        !log.contains("may not list greetings.demo.dev") && !log.contains("may not create events"),
        "{log}"
    );
    server.kubectl(&["apply", "-f", "-"], &greeting("one", "hello"));
    // The missing right is granted while it runs.
    let whole = Command::new(example("greeting")).args(["manifests", "--namespace", HOME]).output().unwrap();
    server.kubectl(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &String::from_utf8(whole.stdout).unwrap(),
    );
    greet(&server, "one", "hello");
}

#[test]
fn without_a_cluster_it_starts_a_control_plane() {
    let folder = tempfile::tempdir().unwrap();
    let operator = operator(folder.path(), "greeting", &[], &[]);
    eventually("its control plane is up", || operator.log().contains("\nready https://").then_some(()));
    let kubeconfig = folder.path().join(".homeostat/kubeconfig");
    let server = Server::of_operator(operator, folder.path(), kubeconfig);
    greet(&server, "one", "hello");
}
