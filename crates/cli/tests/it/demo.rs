//! `homeostat demo --once`: everything converges, the timeline is plain on a pipe, and nothing is left behind.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use tokio::process::Command;

#[tokio::test]
async fn everything_converges() {
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL is another user where this is root, and must pass through to its data.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
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
