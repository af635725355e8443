//! What a killed server or demo leaves in the system's temporary folder: the next one removes it, and ends the
//! processes that still run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::pods::{is_alive, pid, ready, run};
use crate::server::{Server, command, eventually};

/// A server in memory whose temporary folders are in this one.
async fn ephemeral(temporary: &Path) -> Server {
    let mut command = command(temporary, &["--ephemeral", "--node"]);
    command.env("TMPDIR", temporary);
    Server::started(temporary, command).await
}

fn folders(temporary: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(temporary).unwrap().flatten().map(|entry| entry.path()).collect()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the process whose number is in the file, once the file exists.
async fn told(file: &Path) -> u32 {
    eventually("its number", || async { std::fs::read_to_string(file).ok()?.trim().parse().ok() }).await
}

#[tokio::test]
async fn the_next_server_removes_what_a_killed_one_left_and_nothing_else() {
    let (temporary, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // If the server is root, Pods run as other users, so the folder must be accessible to all.
    std::fs::set_permissions(aside.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let lives = ephemeral(temporary.path()).await;
    let dies = ephemeral(temporary.path()).await;
    assert_eq!(folders(temporary.path()).len(), 2);
    let file = aside.path().join("pid");
    // The process leaves its session and clears its environment, so only its brand identifies it. Kubernetes turns two
    // dollar signs into one.
    let script =
        format!("setsid env -i sh -c 'echo $$$$ > {}; exec sleep 1000' & exec sleep 1000", file.display());
    run(&dies, "daemon", "Always", &script).await;
    ready(&dies, "daemon").await;
    let (first, stray) = (pid(&dies, "daemon").await, told(&file).await);
    let supervisor = parent(first);
    let all = [parent(supervisor), supervisor, dies.pid()];
    // Stop all of them before killing any, so that none can clean up after another.
    for (pid, name) in [Signal::STOP, Signal::KILL].into_iter().flat_map(|name| all.map(|pid| (pid, name))) {
        signal(pid, name);
    }
    dies.kill().await;
    eventually("they are gone", || async { all.iter().all(|pid| !is_alive(*pid)).then_some(()) }).await;
    assert!(is_alive(stray) && folders(temporary.path()).len() == 2);

    let next = ephemeral(temporary.path()).await;
    assert!(!is_alive(stray));
    let left = folders(temporary.path());
    let homes = [&lives, &next].map(|server| server.kubeconfig.parent().unwrap().to_owned());
    assert!(left.len() == 2 && homes.iter().all(|home| left.contains(home)), "{left:?}");
    lives.stop().await;
    next.stop().await;
    assert_eq!(folders(temporary.path()).len(), 0);
}

#[tokio::test]
async fn a_killed_demo_leaves_nothing_for_long() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    demo.arg("demo").env("TMPDIR", temporary.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut demo = demo.stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let mut told = BufReader::new(demo.stdout.take().unwrap()).lines();
    while !told.next_line().await.unwrap().expect("it goes on").contains("Running") {}
    demo.kill().await.unwrap();
    assert_eq!(folders(temporary.path()).len(), 2);
    let node = |folder: &PathBuf| folder.join("node").exists();
    eventually("its Pods end", || async { (!folders(temporary.path()).iter().any(node)).then_some(()) })
        .await;
    let next = ephemeral(temporary.path()).await;
    assert_eq!(folders(temporary.path()), [next.kubeconfig.parent().unwrap()]);
    next.stop().await;
}
