//! Real files in a real directory, a cluster in memory, virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod sim;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use homeostat::kube::ResourceExt;
use homeostat::testing::{Cluster, RunningOperator};
use homeostat_example_files::{File, FileSpec, operator};
use serde_json::json;
use tempfile::TempDir;

/// The operator on a test cluster, and the directory that it manages.
struct Desk {
    cluster: Cluster,
    folder: TempDir,
    operator: RunningOperator,
}

impl Desk {
    async fn new() -> Self {
        let (cluster, folder) = (Cluster::start().await, TempDir::new().unwrap());
        let operator = cluster.run(operator(folder.path()));
        let desk = Self { cluster, folder, operator };
        desk.pass().await;
        desk
    }

    /// Starts another process of the operator.
    async fn run(&mut self) {
        self.operator = self.cluster.run(operator(self.folder.path()));
        self.pass().await;
    }

    /// Waits for two checks of the directory and everything that follows.
    async fn pass(&self) {
        self.cluster.pass(Duration::from_secs(3)).await;
    }

    async fn make(&self, name: &str, path: &str, content: &str) {
        self.create(name, FileSpec { path: path.into(), content: content.into(), mode: "0640".into() }).await;
    }

    async fn make_with_mode(&self, name: &str, path: &str, mode: &str) {
        self.create(name, FileSpec { path: path.into(), content: String::new(), mode: mode.into() }).await;
    }

    async fn create(&self, name: &str, spec: FileSpec) {
        self.cluster.create(File::new(name, spec)).await;
        self.pass().await;
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(path)).ok()
    }

    async fn reason(&self, name: &str) -> String {
        let file = self.cluster.get::<File>(name).await;
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

    desk.cluster.patch::<File>("motd", json!({"spec": {"content": "bye"}})).await;
    desk.pass().await;
    assert_eq!(desk.read("etc/motd").as_deref(), Some("bye"));
    desk.cluster.delete::<File>("motd").await;
    desk.pass().await;
    assert_eq!(desk.read("etc/motd"), None);
    assert!(fs::read_dir(desk.folder.path().join("etc")).unwrap().next().is_none(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn many_files_are_made_as_fast_as_a_disk_takes_them() {
    let desk = Desk::new().await;
    let names: Vec<String> = (0..300).map(|number| format!("file-{number}")).collect();
    for name in &names {
        let spec = FileSpec { path: name.clone(), content: "x".into(), mode: "0640".into() };
        desk.cluster.create(File::new(name, spec)).await;
    }
    desk.pass().await;
    let missing = names.iter().filter(|name| desk.read(name).is_none()).count();
    assert_eq!(missing, 0, "of {}", names.len());
}

#[tokio::test(start_paused = true)]
async fn others_files_are_left_alone() {
    let desk = Desk::new().await;
    fs::write(desk.folder.path().join("theirs"), "theirs").unwrap();
    desk.make("mine", "theirs", "mine").await;
    assert_eq!(desk.read("theirs").as_deref(), Some("theirs"));
    assert_eq!(desk.reason("mine").await, "Synced=Conflict");
    desk.cluster.delete::<File>("mine").await;
    desk.pass().await;
    assert_eq!(desk.read("theirs").as_deref(), Some("theirs"));
    assert!(desk.cluster.get_opt::<File>("mine").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_path_that_leads_out_is_refused() {
    let desk = Desk::new().await;
    for (name, path) in [("up", "../evil"), ("root", "/etc/evil"), ("hidden", "a/.ssh"), ("none", "")] {
        desk.make(name, path, "x").await;
        assert_eq!(desk.reason(name).await, "Synced=Invalid Reconciled=TerminalError", "{path:?}");
    }
    assert!(!desk.folder.path().parent().unwrap().join("evil").exists());
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_the_operator_was_down_is_made_up_for() {
    let mut desk = Desk::new().await;
    desk.make("a", "a", "one").await;
    desk.make("b", "b", "two").await;
    desk.operator.kill();
    fs::write(desk.folder.path().join("a"), "vandal").unwrap();
    desk.cluster.delete::<File>("b").await;
    let b = desk.cluster.get::<File>("b").await;
    assert!(!b.finalizers().is_empty(), "its cleanup is owed");
    desk.run().await;
    assert_eq!((desk.read("a").as_deref(), desk.read("b")), (Some("one"), None));
}

#[tokio::test(start_paused = true)]
async fn a_link_leads_nowhere() {
    let desk = Desk::new().await;
    let outside = TempDir::new().unwrap();
    symlink(outside.path(), desk.folder.path().join("way")).unwrap();
    fs::write(outside.path().join("victim"), "theirs").unwrap();
    // Where drafts used to be.
    symlink(outside.path().join("victim"), desk.folder.path().join(".mine.draft")).unwrap();
    desk.make("pwn", "way/pwn", "x").await;
    desk.make("mine", "mine", "x").await;
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing is written through the link");
    assert_eq!(fs::read_to_string(outside.path().join("victim")).unwrap(), "theirs");
    assert_eq!(desk.reason("mine").await, "Synced=InSync");
    assert!(!desk.reason("pwn").await.contains("InSync"), "{}", desk.reason("pwn").await);
    desk.cluster.delete::<File>("pwn").await;
    desk.pass().await;
    assert!(desk.cluster.get_opt::<File>("pwn").await.is_none(), "what never was there is no hindrance");
}

#[tokio::test(start_paused = true)]
async fn bad_values_are_refused_and_stop_nobody_else() {
    let desk = Desk::new().await;
    for number in 0..8 {
        desk.make(&format!("bad{number}"), &"x".repeat(300), "x").await;
    }
    for (name, path) in [("slash", "a/d/"), ("zero", "a\0b"), ("double", "a//b")] {
        desk.make(name, path, "x").await;
        assert_eq!(desk.reason(name).await, "Synced=Invalid Reconciled=TerminalError", "{path:?}");
    }
    desk.make_with_mode("shut", "shut", "0000").await;
    assert_eq!(desk.reason("shut").await, "Synced=Invalid Reconciled=TerminalError");
    desk.make("good", "good", "x").await;
    assert_eq!(desk.read("good").as_deref(), Some("x"));
}

#[tokio::test(start_paused = true)]
async fn what_takes_the_place_of_our_file_is_replaced_and_removed_with_it() {
    let desk = Desk::new().await;
    desk.make("ours", "ours", "x").await;
    let path = desk.folder.path().join("ours");
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    desk.pass().await;
    assert_eq!(desk.read("ours").as_deref(), Some("x"), "a pipe is replaced, not waited for");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    desk.cluster.delete::<File>("ours").await;
    desk.pass().await;
    assert!(!path.exists(), "what cannot be read can be removed");
    assert!(desk.cluster.get_opt::<File>("ours").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_draft_of_a_killed_process_is_swept_at_the_next_start() {
    let mut desk = Desk::new().await;
    desk.make("a", "a", "one").await;
    desk.operator.kill();
    let draft = desk.folder.path().join(".homeostat-0123456789abcdef.draft");
    fs::write(&draft, "half a fi").unwrap();
    let file = fs::File::options().append(true).open(&draft).unwrap();
    file.set_modified(file.metadata().unwrap().modified().unwrap() - Duration::from_secs(3600)).unwrap();
    desk.run().await;
    assert!(!draft.exists());
    assert_eq!(desk.read("a").as_deref(), Some("one"));
}
