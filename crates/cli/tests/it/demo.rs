//! `homeostat demo --once`: everything converges, the timeline is plain text on a pipe, and nothing is left behind.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

/// If this is root, PostgreSQL runs as another user, so the folder must be accessible to all.
fn passable() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    folder
}

#[tokio::test]
async fn everything_converges() {
    let folder = passable();
    let output = Command::new(env!("CARGO_BIN_EXE_homeostat"))
        .args(["demo", "--once"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let (told, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{complaint}");
    assert!(told.ends_with("everything converged\n") && !told.contains('\x1b'), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn an_interrupted_demo_says_so_and_claims_nothing() {
    let folder = passable();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_homeostat"))
        .args(["demo", "--once"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("objects are applied") {
        line.clear();
        assert!(told.read_line(&mut line).await.unwrap() > 0, "the demo ended before it began");
    }
    let pid = Pid::from_raw(demo.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let (mut rest, mut complaint) = (String::new(), String::new());
    told.read_to_string(&mut rest).await.unwrap();
    demo.stderr.take().unwrap().read_to_string(&mut complaint).await.unwrap();
    assert_eq!(demo.wait().await.unwrap().code(), Some(130), "{rest}{complaint}");
    assert!(!rest.contains("everything converged"), "{rest}");
    assert!(complaint.ends_with("interrupted before everything was shown\n"), "{complaint}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
