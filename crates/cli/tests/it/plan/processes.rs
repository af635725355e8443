//! The command as users run it: its exit codes, its output, and the rights that it needs.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::server::{PATIENCE, Server};

/// The token of a user who may only list.
const READER: &str = "reader-token";

/// The token of a user without rights.
const NOBODY: &str = "nobody-token";

fn web(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
                     "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}})
}

/// A server, and a folder with files.
struct PlanLab {
    server: Server,
    folder: tempfile::TempDir,
}

impl PlanLab {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = format!("{READER},reader,1\n{NOBODY},nobody,2\n");
        std::fs::write(folder.path().join("tokens"), tokens).unwrap();
        let server = Server::start(folder.path(), &["--ephemeral", "--token-auth-file", "tokens"]).await;
        Self { server, folder }
    }

    fn file(&self, name: &str, content: &Value) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path
    }

    /// Writes a kubeconfig with this token.
    fn kubeconfig_of(&self, token: &str) -> PathBuf {
        let mut config = kube::config::Kubeconfig::read_from(&self.server.kubeconfig).unwrap();
        let user = config.auth_infos[0].auth_info.as_mut().unwrap();
        (user.client_certificate_data, user.client_key_data) = (None, None);
        let mut config = serde_json::to_value(&config).unwrap();
        // The type of the token hides it when it is serialized.
        config["users"][0]["user"]["token"] = token.into();
        self.file(token, &config)
    }

    async fn plan(&self, file: &Path, more: &[&str]) -> (i32, String, String) {
        self.plan_as(&self.server.kubeconfig, file, more).await
    }

    async fn plan_as(&self, kubeconfig: &Path, file: &Path, more: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
        command.arg("plan").arg("-f").arg(file).arg("--kubeconfig").arg(kubeconfig).args(more);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends");
        let Output { status, stdout, stderr } = output.expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    /// Plans until the exit code is this one.
    async fn plan_until(&self, code: i32, file: &Path) -> String {
        let planned = async {
            loop {
                let (ended, text, _) = self.plan(file, &[]).await;
                // Changes that happen anyway do not count for the exit code.
                if ended == code && !text.starts_with("Even without the change") {
                    return text;
                }
            }
        };
        tokio::time::timeout(PATIENCE, planned).await.expect("the cluster comes to rest")
    }

    async fn apply(&self, deployment: &Value) {
        let api = Api::<Deployment>::default_namespaced(self.server.client().await);
        api.patch("web", &PatchParams::apply("kubectl"), &Patch::Apply(deployment)).await.unwrap();
    }
}

#[tokio::test]
async fn a_plan_says_what_would_happen_and_changes_nothing() {
    let lab = PlanLab::start().await;
    let (three, two) = (lab.file("three.json", &web(3)), lab.file("two.json", &web(2)));
    let (code, text, complaints) = lab.plan(&three, &[]).await;
    assert_eq!((code, complaints.as_str()), (2, ""), "{text}");
    for line in [
        "+ Deployment default/web (created)\n",
        "+ 3 × Pod default/web-5c4798c59b-<random> (created, of ReplicaSet web-5c4798c59b)\n",
        "    spec.containers[web].image = \"nginx\"\n",
        "\nPlan: 5 created, 0 changed, 0 deleted, 0 replaced.\n  Deployment: 1 created\n",
        "Pods that were created stay Pending",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours without a terminal: {text:?}");
    let client = lab.server.client().await;
    let deployments = Api::<Deployment>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(deployments.items.len(), 0, "it only lists");

    lab.apply(&web(3)).await;
    let text = lab.plan_until(0, &three).await;
    assert!(text.starts_with("Nothing would change.\n"), "{text}");
    let (code, text, _) = lab.plan(&two, &["--json"]).await;
    let plan: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &plan["counts"]["Pod"]["deleted"]), (2, &json!(1)), "{text}");
    let pods = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await.unwrap();
    assert_eq!(pods.items.len(), 3);

    let (code, text, complaints) = lab.plan(&three, &["--delete", "--max-deletes", "4"]).await;
    assert!(text.contains("- Deployment default/web (DELETED)\n"), "{text}");
    let refusal = "error: 5 objects would be deleted or replaced, and --max-deletes allows 4\n";
    assert_eq!((code, complaints.as_str()), (1, refusal));
    assert_eq!(lab.plan(&three, &["--delete", "--max-deletes", "5"]).await.0, 2);
    lab.server.stop().await;
}

/// Objects as `kubectl get -o yaml` shows them, which have a version, can be edited and planned.
#[tokio::test]
async fn an_exported_object_can_be_planned() {
    let lab = PlanLab::start().await;
    lab.apply(&web(3)).await;
    lab.plan_until(0, &lab.file("three.json", &web(3))).await;
    let api = Api::<Deployment>::default_namespaced(lab.server.client().await);
    let mut exported = serde_json::to_value(api.get("web").await.unwrap()).unwrap();
    exported["metadata"].as_object_mut().unwrap().remove("managedFields");
    exported["spec"]["replicas"] = json!(2);
    let (code, text, complaints) = lab.plan(&lab.file("exported.json", &exported), &["--json"]).await;
    assert_eq!((code, complaints.as_str()), (2, ""), "{text}");
    exported["metadata"]["resourceVersion"] = json!("1");
    let (code, _, complaints) = lab.plan(&lab.file("old.json", &exported), &[]).await;
    assert_eq!(code, 1);
    assert!(complaints.contains("the object has been modified"), "{complaints}");
    lab.server.stop().await;
}

#[tokio::test]
async fn what_the_server_would_refuse_is_an_error_in_its_words() {
    let lab = PlanLab::start().await;
    let refused = async |content: Value, more: &[&str], expected: &str| {
        let (code, text, complaints) = lab.plan(&lab.file("change", &content), more).await;
        assert_eq!((code, text.as_str()), (1, ""), "{complaints}");
        assert!(complaints.contains(expected), "{complaints}");
    };
    let mut bad = web(1);
    bad["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    refused(bad, &[], "error: the server would refuse Deployment default/web: ").await;
    let mut misspelled = web(1);
    misspelled["spec"]["replicsa"] = 3.into();
    refused(misspelled, &[], "replicsa").await;
    let unknown = json!({"apiVersion": "demo.dev/v1", "kind": "Page", "metadata": {"name": "a"}});
    refused(unknown, &[], "no kind Page is served in the version demo.dev/v1").await;
    refused(web(1), &["-n", "nowhere"], "namespaces \"nowhere\" not found").await;
    refused(web(1), &["--delete"], "\"web\" not found").await;
    refused(json!({}), &[], "an object has no apiVersion").await;
    let (code, _, complaints) = lab.plan(Path::new("/nowhere/at/all"), &[]).await;
    assert!(code == 1 && complaints.starts_with("error: cannot read /nowhere/at/all: "), "{complaints}");
    lab.server.stop().await;
}

#[tokio::test]
async fn the_right_to_list_suffices() {
    let lab = PlanLab::start().await;
    let client = lab.server.client().await;
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]}))
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]}))
    .unwrap();
    Api::all(client).create(&PostParams::default(), &binding).await.unwrap();
    let file = lab.file("web.json", &web(1));
    let (code, text, complaints) = lab.plan_as(&lab.kubeconfig_of(READER), &file, &[]).await;
    assert_eq!((code, complaints.as_str()), (2, ""), "{text}");
    assert_eq!(lab.plan_as(&lab.kubeconfig_of(READER), &file, &["--delete"]).await.0, 1, "it is not there");
    let (code, _, complaints) = lab.plan_as(&lab.kubeconfig_of(NOBODY), &file, &[]).await;
    assert!(code == 1 && complaints.starts_with("error: cannot list "), "{complaints}");
    assert!(complaints.ends_with("; a plan needs the right to list it\n"), "{complaints}");
    lab.server.stop().await;
}
