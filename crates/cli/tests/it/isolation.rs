//! Pods cannot read the data of a real server, whichever user they run as; and the server warns at the start about
//! running Pods.

use serde_json::{Value, json};

use crate::pods::{kubectl, passable_folder, told};
use crate::server::{Server, command, eventually};

/// Returns a Pod that prints everything it can read from a folder and from the server's process.
pub(crate) fn curious(name: &str, folder: &str, server: u32, security: &Value) -> Value {
    let script = format!(
        "for place in {folder} /proc/{server}/cwd/.homeostat /proc/{server}/root{folder} /host /proc/{server}/environ; do \
         find $place -type f -exec cat '{{}}' + 2>/dev/null; done; echo done"
    );
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "securityContext": security,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "host", "mountPath": "/host"}]}],
        "volumes": [{"name": "host", "hostPath": {"path": std::path::Path::new(folder).parent().unwrap()}}]}})
}

/// The store, the keys, the tokens and the kubeconfig, by every possible path.
#[tokio::test]
async fn pods_cannot_read_the_data_of_the_server() {
    let folder = passable_folder();
    let data = folder.path().canonicalize().unwrap().join(".homeostat");
    let mut server = Server::start(folder.path(), &["--node"]).await;
    let is_root = rustix::process::getuid().is_root();
    let note = "note: anyone who may create Pods on this server can run programs on this machine";
    let whom = if is_root { "each Pod as its own user" } else { "with the rights you have here" };
    let said = server.complaints();
    assert!(said.contains(note) && said.contains(whom), "{said}");
    told(&server, &["create", "secret", "generic", "precious", "--from-literal=key=a-secret-of-somebody"])
        .await;
    assert!(data.join("pki").is_dir() && data.join("store").is_dir() && data.join("kubeconfig").is_file());
    let users = [
        json!({}),
        json!({"runAsUser": 0}),
        json!({"runAsUser": 54_340}),
        json!({"runAsUser": 54_340, "runAsGroup": 0}),
    ];
    for (index, security) in users.iter().enumerate().filter(|(index, _)| is_root || *index == 0) {
        let name = format!("curious-{index}");
        let file = folder.path().join(&name);
        let pod = curious(&name, data.to_str().unwrap(), server.pid(), security);
        std::fs::write(&file, pod.to_string()).unwrap();
        told(&server, &["apply", "-f", file.to_str().unwrap()]).await;
        let pod = format!("pod/{name}");
        told(&server, &["wait", "--for=jsonpath={.status.phase}=Succeeded", &pod, "--timeout=60s"]).await;
        let said = told(&server, &["logs", &name]).await;
        for word in ["PRIVATE KEY", "certificate-authority-data", "a-secret-of-somebody", "PATH="] {
            assert!(!said.contains(word), "{name} ({security}) reads {word}: {said}");
        }
        assert!(said.ends_with("done\n"), "{name}: {said}");
    }
    server.stop().await;
}

#[tokio::test]
async fn pods_run_as_the_user_that_the_option_names() {
    let folder = passable_folder();
    let mut alone = command(folder.path(), &["--node-as", "root"]);
    let output = alone.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("add --node"));
    let mut unknown = command(folder.path(), &["--ephemeral", "--node", "--node-as", "no-such-user"]);
    let output = unknown.output().await.unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), words.lines().count()), (Some(1), 1), "{words}");
    assert!(
        words.contains(
            "cannot run Pods as no-such-user: /etc/passwd has no user no-such-user: name a user in it"
        ),
        "{words}"
    );
    if !rustix::process::getuid().is_root() {
        homeostat::testing::report_skip("only root runs Pods as others");
        return;
    }
    let mut server = Server::start(folder.path(), &["--ephemeral", "--node", "--node-as", "daemon"]).await;
    assert!(server.complaints().contains("each Pod as daemon, with all the rights that daemon has"));
    let overrides = json!({"spec": {"securityContext": {"runAsUser": 54_341}}}).to_string();
    let run = |name: &'static str, more: &[&str]| {
        let words: Vec<String> = ["run", name, "--image=none", "--restart=Never"]
            .iter()
            .chain(more)
            .map(|&word| word.to_owned())
            .collect();
        words.into_iter().chain(["--command", "--", "id", "-un"].map(ToOwned::to_owned)).collect::<Vec<_>>()
    };
    for words in [run("plain", &[]), run("other", &["--overrides", &overrides])] {
        told(&server, &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/plain", "--timeout=60s"]).await;
    assert_eq!(told(&server, &["logs", "plain"]).await, "daemon\n");
    let refused = "cannot run as user 54341: this node runs all Pods as daemon (--node-as)";
    eventually(refused, || async {
        kubectl(&server, &["describe", "pod", "other"]).await.ok().filter(|told| told.contains(refused))
    })
    .await;
    server.stop().await;
}
