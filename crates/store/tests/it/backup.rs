//! Tests backups of a store at rest and of one that is being written to, and which files are refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_core::Revision;
use homeostat_store::disk::Config;
use homeostat_store::disk::backup_file::{Attachment, Backup};
use homeostat_store::{Disk, Error, Limits, SharedStore};
use tempfile::TempDir;

use crate::contract::{commit, contents, pods, put};

struct Folders(TempDir);

impl Folders {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str, config: &Config) -> SharedStore {
        Arc::new(Disk::open(self.path(name), config).expect("the folder opens"))
    }
}

fn key() -> Attachment {
    Attachment { name: "ca.key".to_owned(), contents: b"secret".to_vec() }
}

fn read(path: &Path) -> Result<Backup, Error> {
    Backup::read(path, Config::default().contents)
}

#[tokio::test]
async fn what_was_backed_up_is_restored_and_goes_on_at_a_later_revision() {
    let folders = Folders::new();
    let store = folders.open("store", &Config::default());
    commit(&store, put("a", "1")).await;
    commit(&store, put("b", "2")).await;
    let before = contents(&store.snapshot(), &pods());
    let file = folders.path("file");
    let config = Config::default();
    let backup = Backup::of_folder(&folders.path("store"), vec![key()], &config).expect("it is read in use");
    assert_eq!((backup.len(), backup.revision()), (2, Revision::new(2)));
    backup.write(&file).expect("it can be written");
    commit(&store, put("a", "lost")).await;

    let backup = read(&file).expect("the file is whole");
    assert_eq!(backup.attachments(), [key()]);
    backup.restore_to(&folders.path("restored"), &config).expect("the folder is new");
    let restored = folders.open("restored", &config);
    assert_eq!(contents(&restored.snapshot(), &pods()), before);
    let watch = restored.watch(&pods(), Revision::new(3));
    assert!(
        matches!(watch, Err(Error::Compacted { .. })),
        "who saw what was lost must read again: {watch:?}"
    );
    assert!(commit(&restored, put("a", "new")).await.revision > Revision::new(1_000_000_000));
    drop(restored);
    assert_eq!(contents(&folders.open("restored", &config).snapshot(), &pods())["/pods/default/a"], "new");
}

/// Every backup of a store with one writer contains exactly a prefix of its commits, whatever the writer does in the
/// meantime.
#[tokio::test(flavor = "multi_thread")]
async fn backups_of_a_store_that_is_written_to_are_consistent() {
    let folders = Folders::new();
    // Small files, so that logs and checkpoints are created and removed while they are read.
    let config = Config {
        history: Limits { bytes: 20_000, ..Limits::default() },
        segment_bytes: 20_000,
        checkpoint_bytes: 40_000,
        ..Config::default()
    };
    let store = folders.open("store", &config);
    let is_done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, is_done) = (Arc::clone(&store), Arc::clone(&is_done));
        async move {
            let mut number = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                number += 1;
                let committed = commit(&store, put(&format!("n{}", number % 50), &number.to_string())).await;
                assert_eq!(committed.revision, Revision::new(number));
            }
            number
        }
    });
    let (mut newest, mut different) = (0, 0);
    for _ in 0..200 {
        let least = store.snapshot().revision().get();
        let (path, config) = (folders.path("store"), config.clone());
        let backup = tokio::task::spawn_blocking(move || Backup::of_folder(&path, Vec::new(), &config)).await;
        let backup = backup.expect("it does not panic").expect("it is read in use");
        let file = folders.path("file");
        backup.write(&file).expect("it can be written");
        let restored = folders.path("restored");
        read(&file).expect("the file is whole").restore_to(&restored, &Config::default()).expect("it is new");
        let at = backup.revision().get();
        assert!(at >= least, "{at} is older than {least}, which was acknowledged before");
        let state = contents(&folders.open("restored", &Config::default()).snapshot(), &pods());
        for number in at.saturating_sub(49).max(1)..=at {
            assert_eq!(state[&format!("/pods/default/n{}", number % 50)], number.to_string(), "at {at}");
        }
        assert_eq!(state.len() as u64, at.min(50));
        different += u64::from(at > newest);
        newest = at;
        std::fs::remove_file(file).expect("it is there");
        std::fs::remove_dir_all(restored).expect("it is there");
    }
    is_done.store(true, Ordering::Relaxed);
    let written = writer.await.expect("it does not panic");
    assert!(
        written > 500 && different > 100,
        "nothing happened meanwhile: {written} commits, {different} backups"
    );
}

/// A restore that was killed must not be taken for a new store, which would start empty.
#[tokio::test]
async fn what_a_killed_restore_leaves_is_refused() {
    let folders = Folders::new();
    let config = Config::default();
    commit(&folders.open("store", &config), put("a", "1")).await;
    let backup = Backup::of_folder(&folders.path("store"), Vec::new(), &config).expect("it is at rest");
    backup.restore_to(&folders.path("restored"), &config).expect("the folder is new");
    let names = std::fs::read_dir(folders.path("restored")).expect("it is there");
    let names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    let checkpoint = names.iter().find(|name| name.starts_with("checkpoint-")).expect("it has a checkpoint");
    let unfinished = format!("{checkpoint}.unfinished");
    for (index, files) in
        [vec!["used"], vec!["used", &unfinished], vec!["used", checkpoint]].iter().enumerate()
    {
        let partial = folders.path(&format!("partial-{index}"));
        std::fs::create_dir(&partial).unwrap();
        for name in files {
            let from = folders.path("restored").join(name.trim_end_matches(".unfinished"));
            std::fs::copy(from, partial.join(name)).expect("the restore writes this file");
        }
        let refused = Disk::open(partial, &config).expect_err("the log is missing").to_string();
        assert!(refused.contains("is missing; nothing was changed"), "{files:?}: {refused}");
    }
}

#[tokio::test]
async fn damage_strangers_and_folders_in_use_are_refused() {
    let folders = Folders::new();
    let config = Config::default();
    let store = folders.open("store", &config);
    commit(&store, put("a", "1")).await;
    let file = folders.path("file");
    let of = |name: &str| Backup::of_folder(&folders.path(name), vec![key()], &config);
    of("store").expect("it is read in use").write(&file).expect("it can be written");
    let again = of("store").expect("it is read in use").write(&file).expect_err("the file exists");
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    let missing = of("nowhere").expect_err("there is no store");
    assert!(missing.to_string().contains("there is no store in this folder"), "{missing}");

    let whole = std::fs::read(&file).expect("it is there");
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1;
        std::fs::write(&file, &broken).expect("it can be written");
        // The mark after each record may be missing, but must not differ; everything else has a checksum.
        assert!(read(&file).is_err(), "a changed byte {at} of {} was not noticed", whole.len());
        std::fs::write(&file, &whole[..at]).expect("it can be written");
        assert!(read(&file).is_err(), "it was cut at {at} of {} and not noticed", whole.len());
    }

    std::fs::write(&file, &whole).expect("it can be written");
    let in_use = read(&file).expect("it is whole").restore_to(&folders.path("store"), &config);
    assert!(in_use.is_err_and(|error| error.to_string().contains("another process uses it")));
    drop(store);
    let used = read(&file).expect("it is whole").restore_to(&folders.path("store"), &config);
    assert!(used.is_err_and(|error| error.to_string().contains("there is a store in this folder already")));
}

#[test]
fn attachments_stay_in_their_folder() {
    let folders = Folders::new();
    drop(folders.open("store", &Config::default()));
    for name in ["../up", "/etc/x", "", ".hidden", "a/b"] {
        let file = folders.path("file");
        let attachment = Attachment { name: name.to_owned(), contents: Vec::new() };
        let backup = Backup::of_folder(&folders.path("store"), vec![attachment], &Config::default());
        backup.expect("it is at rest").write(&file).expect("it can be written");
        let refused = read(&file).expect_err("the name is not plain");
        assert!(refused.to_string().contains("no proper name"), "{name}: {refused}");
        std::fs::remove_file(file).expect("it is there");
    }
}
