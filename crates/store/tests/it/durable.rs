//! The disk store fulfils the contract, also across restarts.

use std::sync::Arc;

use homeostat_core::Revision;
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Error, Limits, SharedStore};
use tempfile::TempDir;

use crate::contract::{self, commit, contents, line, pods, put};

struct Durable(TempDir);

impl Durable {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    fn reopen(&self, config: &Config) -> SharedStore {
        Arc::new(Disk::open(self.0.path(), config).expect("the folder opens"))
    }
}

impl contract::Subject for Durable {
    fn open(&self, history: Limits) -> SharedStore {
        self.reopen(&Config { history, ..Config::default() })
    }
}

contract::suite!(Durable::new());

#[tokio::test]
async fn a_restart_keeps_state_history_and_revision() {
    let folder = Durable::new();
    let store = folder.reopen(&Config::default());
    for text in ["1", "2", "3"] {
        commit(&store, put("a", text)).await;
    }
    let before = contents(&store.snapshot(), &pods());
    drop(store);

    let store = folder.reopen(&Config::default());
    assert_eq!(store.snapshot().revision(), Revision::new(3));
    assert_eq!(contents(&store.snapshot(), &pods()), before);
    let mut watch = store.watch(&pods(), Revision::new(1)).expect("history survives");
    assert_eq!(commit(&store, put("a", "4")).await.revision, Revision::new(4));
    let lines: Vec<_> = watch.next().await.expect("events wait").iter().map(|event| line(event)).collect();
    assert_eq!(lines, ["2 a 1>2", "3 a 2>3", "4 a 3>4"]);
    let past = store.snapshot_at(Revision::new(2)).expect("the past survives");
    assert_eq!(contents(&past, &pods())["/pods/default/a"], "2");
}

#[tokio::test]
async fn checkpoints_bound_the_folder_and_keep_the_window() {
    let folder = Durable::new();
    let config = Config {
        history: Limits { bytes: 20_000, ..Limits::default() },
        segment_bytes: 10_000,
        checkpoint_bytes: 30_000,
        ..Config::default()
    };
    let mut expected = Vec::new();
    let mut floor = Revision::ZERO;
    for round in 0..5 {
        let store = folder.reopen(&config);
        if round > 0 {
            assert_eq!(format!("{:?}", contents(&store.snapshot(), &pods())), expected[round - 1]);
            let mut watch = store.watch(&pods(), floor).expect("the window survives");
            assert_eq!(
                watch.next().await.expect("events wait").first().map(|event| event.revision),
                Some(floor.next())
            );
        }
        for index in 0..200 {
            commit(&store, put(&(index % 7).to_string(), &format!("{round}-{index}-{}", "x".repeat(1000))))
                .await;
        }
        expected.push(format!("{:?}", contents(&store.snapshot(), &pods())));
        let Err(Error::Compacted { oldest, .. }) = store.watch(&pods(), Revision::new(1)) else {
            panic!("so much history is not kept")
        };
        floor = oldest;
        store.close().await;
    }
    let bytes: u64 = std::fs::read_dir(folder.0.path())
        .expect("the folder is there")
        .map(|entry| entry.and_then(|entry| entry.metadata()).expect("it can be read").len())
        .sum();
    assert!(bytes < 150_000, "a megabyte was written, {bytes} bytes are left");
}

#[tokio::test]
async fn a_folder_has_one_user() {
    let folder = Durable::new();
    let first = folder.reopen(&Config::default());
    let check = || {
        let error = Disk::open(folder.0.path(), &Config::default()).expect_err("it is in use");
        let is_told = matches!(&error, Error::Open { reason, .. } if reason.contains("another process"));
        assert!(is_told, "{error}");
    };
    check();
    std::fs::remove_file(folder.0.path().join("lock")).expect("it is there");
    check();
    first.close().await;
    Disk::open(folder.0.path(), &Config::default()).expect("closing frees the folder");
}

#[tokio::test]
async fn what_is_no_file_of_ours_is_left_alone() {
    let folder = Durable::new();
    let path = |name: &str| folder.0.path().join(name);
    let store = folder.reopen(&Config::default());
    store.commit(put("a", "1")).await.expect("nothing fails");
    drop(store);
    for (name, contents) in [("log-7", "a copy"), ("notes.unfinished", "mine"), ("checkpoint-x", "")] {
        std::fs::write(path(name), contents).expect("it can be written");
    }
    drop(folder.reopen(&Config::default()));
    assert_eq!(std::fs::read_to_string(path("notes.unfinished")).expect("it is there"), "mine");
    std::fs::write(path("victim"), "precious").expect("it can be written");
    std::fs::remove_file(path("used")).expect("it is there");
    std::os::unix::fs::symlink(path("victim"), path("used")).expect("a link can be made");
    let error = Disk::open(folder.0.path(), &Config::default()).expect_err("a link is refused");
    assert!(error.to_string().contains("used is a link"), "{error}");
    assert_eq!(std::fs::read_to_string(path("victim")).expect("it is there"), "precious");
}

#[tokio::test]
async fn a_flood_is_answered_busy() {
    let folder = Durable::new();
    let store = folder.reopen(&Config::default());
    let large = "x".repeat(1 << 20);
    let answers: Vec<_> = (0..200).map(|index| store.commit(put(&index.to_string(), &large))).collect();
    let mut busy = 0;
    for answer in answers {
        match answer.await {
            Ok(_) => {}
            Err(Error::Busy) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(busy > 0, "200 MiB do not fit into the queue");
    assert_eq!(store.snapshot().len() + busy, 200, "what was accepted is there, what was refused is not");
}
