//! An unprivileged user: everything works without root, and what does not is reported. If these tests run as an
//! unprivileged user, all of them test that.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::isolation::curious;
use crate::pods::{kubectl, told};
use crate::server::{Server, eventually};

/// A user who owns nothing.
const NOBODY: u32 = 65_534;

/// A folder owned by `nobody`, with the program in a place that user can reach. Absent if the test does not run as
/// root.
struct Place {
    folder: TempDir,
    program: PathBuf,
}

impl Place {
    fn make() -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("homeostat");
        let built = Path::new(env!("CARGO_BIN_EXE_homeostat"));
        std::fs::hard_link(built, &program).or_else(|_| std::fs::copy(built, &program).map(drop)).unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
        Some(Self { folder, program })
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.own()).env("HOME", self.own()).env("TMPDIR", self.own());
        command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// A Pod that prints its user and what it finds, with additions to its spec.
fn pod(name: &str, security: &Value) -> String {
    let script = "id -u; cat /homeostat-test/files/a; echo x > /homeostat-test/empty/x; \
        echo x > /homeostat-test/disk/x; ls /homeostat-test/disk; kubectl auth whoami -o jsonpath={.status.userInfo.username}; \
        for volume in disk empty; do cd /homeostat-test/$volume; mkdir -p shut/in; chmod 0 shut/in; chmod 555 shut; done";
    let mounts = ["files", "empty", "disk"]
        .map(|name| json!({"name": name, "mountPath": format!("/homeostat-test/{name}")}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "securityContext": security,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script], "volumeMounts": mounts}],
        "volumes": [{"name": "files", "configMap": {"name": "files"}}, {"name": "empty", "emptyDir": {}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}})
    .to_string()
}

#[tokio::test]
async fn a_node_works_for_an_ordinary_user() {
    let Some(place) = Place::make() else { return };
    let command = place.command(&["up", "--node", "--listen", "127.0.0.1:0"]);
    let server = Server::started(&place.own(), command).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    told(&server, &["create", "configmap", "files", "--from-literal=a=A"]).await;
    let data = place.own().join(".homeostat").display().to_string();
    for (name, object) in [
        ("claim", claim.to_string()),
        ("plain", pod("plain", &json!({"fsGroup": 1234}))),
        ("other", pod("other", &json!({"runAsUser": 1}))),
        ("grouped", pod("grouped", &json!({"runAsGroup": 1}))),
        ("curious", curious("curious", &data, server.pid(), &json!({})).to_string()),
    ] {
        let file = place.folder.path().join(name);
        std::fs::write(&file, object).unwrap();
        told(&server, &["apply", "-f", file.to_str().unwrap()]).await;
    }
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/plain", "--timeout=60s"]).await;
    let expected = format!("{NOBODY}\nAx\nsystem:serviceaccount:default:default");
    assert_eq!(told(&server, &["logs", "plain"]).await, expected);
    for (name, words) in [
        ("plain", "do not get: the server must run as root to assign groups"),
        ("other", "cannot run as user 1: the server must run as root"),
        ("grouped", "cannot run as group 1: the server must run as root"),
    ] {
        eventually(words, || async {
            kubectl(&server, &["describe", "pod", name]).await.ok().filter(|told| told.contains(words))
        })
        .await;
    }
    // The Pod runs as the same user as the server, and still cannot read the server's data.
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/curious", "--timeout=60s"])
        .await;
    assert_eq!(told(&server, &["logs", "curious"]).await, "done\n");
    let pods = place.own().join(".homeostat/node/pods");
    assert!(pods.read_dir().unwrap().next().is_some(), "the Pods have folders");
    told(&server, &["delete", "pod", "--all"]).await;
    told(&server, &["delete", "pvc", "disk"]).await;
    told(&server, &["wait", "--for=delete", "pv", "--all", "--timeout=60s"]).await;
    eventually("no folder of a Pod", || async { pods.read_dir().unwrap().next().is_none().then_some(()) })
        .await;
    server.stop().await;
}

#[tokio::test]
async fn an_ordinary_user_sees_the_whole_demo() {
    let Some(place) = Place::make() else { return };
    let output = place.command(&["demo", "--once"]).output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.ends_with("everything converged\n"), "{told}");
    assert_eq!(std::fs::read_dir(place.own()).unwrap().count(), 0, "nothing is left behind");
}
