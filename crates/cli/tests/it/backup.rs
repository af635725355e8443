//! `homeostat backup` of a server while it is written to, and `homeostat restore` after its folder is gone.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use tokio::process::Command;

use crate::server::Server;

async fn homeostat(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_homeostat");
    Command::new(program).args(arguments).current_dir(folder).output().await.unwrap()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains(words) && complaint.lines().count() == 1, "{complaint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_is_restored_as_it_was_at_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).await;
    let client = server.client().await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = Secret {
        metadata: ObjectMeta { name: Some("password".to_owned()), ..ObjectMeta::default() },
        string_data: Some([("p".to_owned(), "hunter2".to_owned())].into()),
        ..Secret::default()
    };
    let secret = secrets.create(&PostParams::default(), &secret).await.unwrap();

    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let (mut backup, mut written) = (None, 0_u32);
    let (mut least, mut most) = (0, 0);
    for number in 0..200_u32 {
        if number == 100 {
            least = written;
            backup = Some(tokio::spawn({
                let folder = folder.path().to_owned();
                async move { homeostat(&folder, &["backup", "monday"]).await }
            }));
        }
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(format!("m{number:03}")), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        maps.create(&PostParams::default(), &map).await.unwrap();
        written += 1;
        if backup.as_ref().is_some_and(|backup| !backup.is_finished()) {
            most = written;
        }
    }
    let output = backup.unwrap().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.starts_with("saved ") && said.contains("monday"), "{output:?}");
    let newest = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();

    refused(&homeostat(folder.path(), &["backup", "monday"]).await, "monday: it exists already");
    refused(&homeostat(folder.path(), &["restore", "monday"]).await, "the folder is not empty");
    let absent = homeostat(folder.path(), &["backup", "x", "--data-dir", "nowhere"]).await;
    refused(&absent, "there is no store in this folder");
    refused(&homeostat(folder.path(), &["restore", "Cargo.toml"]).await, "Cargo.toml");

    let kubeconfig = std::fs::read(&server.kubeconfig).unwrap();
    server.kill().await;
    std::fs::remove_dir_all(folder.path().join(".homeostat")).unwrap();
    let output = homeostat(folder.path(), &["restore", "monday"]).await;
    assert!(output.status.success(), "{output:?}");
    let server = Server::durable(folder.path()).await;
    let (again, token) = (std::fs::read_to_string(&server.kubeconfig).unwrap(), |text: &str| {
        text.lines().find(|line| line.contains("token:")).map(ToOwned::to_owned)
    });
    assert_eq!(token(&again), token(&String::from_utf8_lossy(&kubeconfig)), "the credentials are the same");
    let client = server.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = list.items.iter().filter_map(|map| map.metadata.name.clone()).collect();
    let count = names.iter().filter(|name| name.starts_with('m')).count();
    let expected: Vec<_> = (0..count).map(|number| format!("m{number:03}")).collect();
    assert_eq!(
        names.iter().filter(|name| name.starts_with('m')).collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    let count = u32::try_from(count).unwrap();
    assert!(count >= least && count <= most + 1, "{count} of {least} to {most}");
    let version = |text: &str| text.parse::<u64>().unwrap();
    assert!(version(&list.metadata.resource_version.unwrap()) > version(&newest), "the versions continue");
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let found = secrets.get("password").await.unwrap();
    assert_eq!((found.data, found.metadata.uid), (secret.data, secret.metadata.uid));
}

/// Moments at which a restore is killed: as soon as this folder has a file with this in its name.
const MOMENTS: [(&str, &str); 6] = [
    ("", "restore-unfinished"),
    ("pki", "ca"),
    ("store", "used"),
    ("store", ".unfinished"),
    ("store", "checkpoint-"),
    ("store", "log-"),
];
const MARKER: &str = ".homeostat/restore-unfinished";
/// Large enough that a restore takes many milliseconds, so that it is stopped in the middle and not at its end.
const LARGE_OBJECTS: usize = 16;
const LARGE_BYTES: usize = 900_000;

fn has_file(folder: &Path, fragment: &str) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten();
    names.flatten().any(|name| name.file_name().to_string_lossy().contains(fragment))
}

/// Starts a restore and stops it at the moment, or lets it finish if it is faster.
fn stopped_restore(folder: &Path, (inside, fragment): (&str, &str)) -> Child {
    let mut restore = std::process::Command::new(env!("CARGO_BIN_EXE_homeostat"));
    restore.args(["restore", "file"]).current_dir(folder).stdout(Stdio::null());
    let mut process = restore.spawn().unwrap();
    let watched = folder.join(".homeostat").join(inside);
    while !has_file(&watched, fragment) && process.try_wait().unwrap().is_none() {}
    let pid = process.id().to_string();
    // Fails only if the process has just ended.
    let _ = std::process::Command::new("kill").args(["-STOP", &pid]).output().unwrap();
    process
}

/// Returns the number of objects in a data folder.
async fn count_objects(folder: &Path) -> String {
    let _ = std::fs::remove_file(folder.join("counted"));
    let output = homeostat(folder, &["backup", "counted"]).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.split(" as of").next().unwrap().to_owned()
}

async fn write_large_objects(server: &Server) {
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    for number in 0..LARGE_OBJECTS {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(format!("large{number}")), ..ObjectMeta::default() },
            data: Some([("text".to_owned(), "x".repeat(LARGE_BYTES))].into()),
            ..ConfigMap::default()
        };
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

/// A restore that was killed must never leave a folder that starts as an empty cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_restore_is_noticed_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::durable(folder).await;
    write_large_objects(&server).await;
    server.stop().await;
    let objects = count_objects(folder).await;
    std::fs::rename(folder.join("counted"), folder.join("file")).unwrap();
    let mut interrupted = 0;
    for moment in MOMENTS {
        std::fs::remove_dir_all(folder.join(".homeostat")).unwrap();
        let mut restore = stopped_restore(folder, moment);
        let is_marked = folder.join(MARKER).exists();
        if is_marked {
            refused(
                &homeostat(folder, &["restore", "file"]).await,
                "another restore into this folder is running",
            );
        }
        restore.kill().unwrap();
        restore.wait().unwrap();
        if is_marked {
            interrupted += 1;
            let advice = "run homeostat restore FILE --data-dir .homeostat again";
            refused(&homeostat(folder, &["up", "--listen", "127.0.0.1:0"]).await, advice);
            refused(&homeostat(folder, &["backup", "half"]).await, advice);
            refused(&homeostat(folder, &["user", "add", "eve"]).await, advice);
            let again = homeostat(folder, &["restore", "file"]).await;
            assert!(again.status.success(), "{moment:?}: {again:?}");
        }
        assert_eq!(count_objects(folder).await, objects, "{moment:?}");
        refused(&homeostat(folder, &["restore", "file"]).await, "the folder is not empty");
    }
    assert!(interrupted > 1, "only {interrupted} restores were killed in the middle");
    let server = Server::durable(folder).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let last = format!("large{}", LARGE_OBJECTS - 1);
    assert_eq!(maps.get(&last).await.unwrap().data.unwrap()["text"].len(), LARGE_BYTES);
}
