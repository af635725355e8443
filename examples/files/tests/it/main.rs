//! Real files in a real directory, an embedded control plane, virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use homeostat::embedded::ControlPlane;
use homeostat::kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use homeostat::kube::{Api, ResourceExt};
use homeostat::runtime::CancellationToken;
use homeostat_example_files::{File, FileSpec, operator};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

struct Desk {
    files: Api<File>,
    folder: TempDir,
    operator: JoinHandle<()>,
    plane: ControlPlane,
}

impl Desk {
    async fn new() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        let folder = TempDir::new().unwrap();
        let files = Api::namespaced(plane.client(), "default");
        let mut desk = Self { files, folder, operator: tokio::spawn(async {}), plane };
        desk.run().await;
        desk
    }

    async fn run(&mut self) {
        let (client, operator) = (self.plane.client(), operator(self.folder.path()));
        self.operator = tokio::spawn(async move {
            operator.run_on(client, CancellationToken::new()).await.unwrap();
        });
        self.pass().await;
    }

    /// Two looks at the directory, and all that follows.
    async fn pass(&self) {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }

    async fn make(&self, name: &str, path: &str, content: &str) {
        let spec = FileSpec { path: path.into(), content: content.into(), mode: "0640".into() };
        self.files.create(&PostParams::default(), &File::new(name, spec)).await.unwrap();
        self.pass().await;
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(path)).ok()
    }

    async fn reason(&self, name: &str) -> String {
        let file = self.files.get(name).await.unwrap();
        let conditions = file.status.map(|status| status.base.conditions).unwrap_or_default();
        conditions.iter().map(|one| format!("{}={}", one.type_, one.reason)).collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_made_kept_and_removed() {
    let desk = Desk::new().await;
    desk.make("motd", "etc/motd", "hello").await;
    let path = desk.folder.path().join("etc/motd");
    assert_eq!(desk.read("etc/motd").as_deref(), Some("hello"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

    fs::write(&path, "vandal").unwrap();
    desk.pass().await;
    assert_eq!(desk.read("etc/motd").as_deref(), Some("hello"), "an edit is undone");
    fs::remove_file(&path).unwrap();
    desk.pass().await;
    assert_eq!(desk.read("etc/motd").as_deref(), Some("hello"), "a deletion is undone");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    desk.pass().await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "a chmod is undone");

    let edit = Patch::Merge(json!({"spec": {"content": "bye"}}));
    desk.files.patch("motd", &PatchParams::default(), &edit).await.unwrap();
    desk.pass().await;
    assert_eq!(desk.read("etc/motd").as_deref(), Some("bye"));
    desk.files.delete("motd", &DeleteParams::default()).await.unwrap();
    desk.pass().await;
    assert_eq!(desk.read("etc/motd"), None);
    assert!(fs::read_dir(desk.folder.path().join("etc")).unwrap().next().is_none(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn others_files_are_left_alone() {
    let desk = Desk::new().await;
    fs::write(desk.folder.path().join("theirs"), "theirs").unwrap();
    desk.make("mine", "theirs", "mine").await;
    assert_eq!(desk.read("theirs").as_deref(), Some("theirs"));
    assert_eq!(desk.reason("mine").await, "Synced=Conflict");
    desk.files.delete("mine", &DeleteParams::default()).await.unwrap();
    desk.pass().await;
    assert_eq!(desk.read("theirs").as_deref(), Some("theirs"));
    assert!(desk.files.get_opt("mine").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_path_that_leads_out_is_refused() {
    let desk = Desk::new().await;
    for (name, path) in [("up", "../evil"), ("root", "/etc/evil"), ("hidden", "a/.ssh"), ("none", "")] {
        desk.make(name, path, "x").await;
        assert_eq!(desk.reason(name).await, "Reconciled=TerminalError", "{path:?}");
    }
    assert!(!desk.folder.path().parent().unwrap().join("evil").exists());
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_the_operator_was_down_is_made_up_for() {
    let mut desk = Desk::new().await;
    desk.make("a", "a", "one").await;
    desk.make("b", "b", "two").await;
    desk.operator.abort();
    fs::write(desk.folder.path().join("a"), "vandal").unwrap();
    let b = desk.files.delete("b", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(!b.finalizers().is_empty(), "its cleanup is owed");
    desk.run().await;
    assert_eq!((desk.read("a").as_deref(), desk.read("b")), (Some("one"), None));
}
