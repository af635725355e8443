//! Durability of the real process: it is repeatedly killed with `kill -9` while writers write over TLS. After the
//! restart every acknowledged write must exist, every unanswered one completely or not at all, and a watch that resumes
//! after each crash must report exactly the changes that happened, in order.
//!
//! `HOMEOSTAT_KILLS` sets the number of kills (50). A long run is one command: `HOMEOSTAT_KILLS=1000 cargo test
//! --release -p homeostat-cli --test it kill`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use homeostat_core::Entropy;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use tokio::sync::watch;

use crate::ledger::{Attempt, Change, Ledger, Version};
use crate::server::Server;

const KILLS: &str = "HOMEOSTAT_KILLS";
const KILLS_DEFAULT: u32 = 50;
/// Enough that the store's group commit contains several writers' commits at the moment of a crash.
const WRITERS: usize = 6;
/// Few, so that objects live through many crashes, are deleted and created again.
const OBJECTS_PER_WRITER: u64 = 5;
/// The maximum number of acknowledged writes before a crash, so that most crashes hit new connections and new logs.
const WRITES_PER_LIFE_MAX: u64 = 60;
/// One start in this many is killed before or about when it is ready.
const EARLY_KILL_EVERY: u32 = 5;
const EARLY_KILL_MICROSECONDS_MAX: u64 = 120_000;
/// The time limit of the whole test, per crash: a start, some TLS handshakes and some dozens of writes on two busy
/// cores.
const LIFE_MAX: Duration = Duration::from_secs(15);
/// Tells the watcher that nothing follows.
const LAST: &str = "last";

/// What the clients know about the server: which life it is in and how to reach it.
#[derive(Clone)]
struct Life {
    client: Option<kube::Client>,
    is_last: bool,
}

type Lives = watch::Receiver<Life>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_loses_nothing_that_was_acknowledged() {
    let kills =
        std::env::var(KILLS).map_or(KILLS_DEFAULT, |text| text.parse().expect("HOMEOSTAT_KILLS is a number"));
    tokio::time::timeout(LIFE_MAX * (kills + 1), run(kills)).await.expect("the run ends in time");
}

async fn run(kills: u32) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let entropy = Entropy::system();
    let (life, lives) = watch::channel(Life { client: None, is_last: false });
    let (acknowledged, counter) = watch::channel(0);
    let acknowledged = Arc::new(acknowledged);
    let watcher = tokio::spawn(watch_all(lives.clone(), first_revision(folder.path()).await));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer {
            number,
            lives: lives.clone(),
            acknowledged: acknowledged.clone(),
            entropy: entropy.clone(),
        })
        .map(|writer| tokio::spawn(writer.run()))
        .collect();

    crash(kills, folder.path(), &life, counter.clone(), &entropy).await;

    let server = Server::durable(folder.path()).await;
    let client = server.client().await;
    life.send_replace(Life { client: Some(client.clone()), is_last: true });
    let mut expected = BTreeMap::new();
    for writer in writers {
        let ledger = writer.await.expect("the writer found nothing wrong");
        expected.extend(ledger.changes().map(|(name, changes)| (name.clone(), changes.clone())));
    }
    config_maps(&client)
        .create(&PostParams::default(), &object(LAST, LAST, ""))
        .await
        .expect("it still takes writes");
    let told = watcher.await.expect("the watcher found nothing wrong");
    assert_eq!(told, expected, "the watch reported exactly what happened");
    server.stop().await;
    println!(
        "{kills} kills, {} acknowledged writes, all there; {} objects watched",
        *counter.borrow(),
        told.len()
    );
}

/// Starts the server, lets the writers write, and kills it, this many times.
async fn crash(
    kills: u32,
    folder: &Path,
    life: &watch::Sender<Life>,
    mut acknowledged: watch::Receiver<u64>,
    entropy: &Entropy,
) {
    for kill in 0..kills {
        if kill % EARLY_KILL_EVERY == EARLY_KILL_EVERY - 1 {
            let after = Duration::from_micros(entropy.below(EARLY_KILL_MICROSECONDS_MAX));
            Server::kill_while_starting(folder, after).await;
            continue;
        }
        let server = Server::durable(folder).await;
        let target = *acknowledged.borrow_and_update() + 1 + entropy.below(WRITES_PER_LIFE_MAX);
        life.send_replace(Life { client: Some(server.client().await), is_last: false });
        acknowledged.wait_for(|count| *count >= target).await.expect("the writers live on");
        server.kill().await;
    }
}

struct Writer {
    number: usize,
    lives: Lives,
    acknowledged: Arc<watch::Sender<u64>>,
    entropy: Entropy,
}

impl Writer {
    /// Writes until the last life, and returns its ledger. Panics on any answer that a durable server cannot give.
    async fn run(mut self) -> Ledger {
        let mut ledger = Ledger::default();
        loop {
            self.lives.changed().await.expect("the test lives on");
            let life = self.lives.borrow_and_update().clone();
            let Some(client) = life.client else { continue };
            let api = config_maps(&client);
            let Ok(observed) = self.load(&api).await else { continue };
            ledger.settle(&observed).unwrap_or_else(|lost| panic!("after a crash: {lost}"));
            if life.is_last {
                return ledger;
            }
            while self.write(&api, &mut ledger).await.is_ok() {}
        }
    }

    /// Returns its objects on the server, or `Err` if the server is gone.
    async fn load(&self, api: &Api<ConfigMap>) -> Result<BTreeMap<String, Version>, Gone> {
        let mine = ListParams::default().labels(&format!("writer=w{}", self.number));
        let list = api.list(&mine).await.map_err(gone)?;
        Ok(list.into_iter().map(|object| (name_of(&object), version_of(&object))).collect())
    }

    /// Makes one write to one object, of a kind that its state allows.
    async fn write(&self, api: &Api<ConfigMap>, ledger: &mut Ledger) -> Result<(), Gone> {
        let name = format!("w{}-{}", self.number, self.entropy.below(OBJECTS_PER_WRITER));
        let value = self.entropy.suffix(12);
        let current = ledger.current(&name).cloned();
        let attempt = match &current {
            None => Attempt::Create(value.clone()),
            Some(_) if self.entropy.below(4) == 0 => Attempt::Delete,
            Some(_) => Attempt::Replace(value.clone()),
        };
        ledger.attempt(&name, attempt.clone());
        let mut body = object(&name, &format!("w{}", self.number), &value);
        body.metadata.resource_version = current.map(|version| version.revision);
        let answer = match attempt {
            Attempt::Create(_) => Some(api.create(&PostParams::default(), &body).await.map_err(gone)?),
            Attempt::Replace(_) => {
                Some(api.replace(&name, &PostParams::default(), &body).await.map_err(gone)?)
            }
            Attempt::Delete => {
                api.delete(&name, &DeleteParams::default()).await.map_err(gone)?;
                None
            }
        };
        ledger.acknowledge(&name, answer.as_ref().map(version_of));
        self.acknowledged.send_modify(|count| *count += 1);
        Ok(())
    }
}

/// The connection broke: the process was killed.
struct Gone;

/// A refusal is a bug: no other client writes these objects, and a durable server knows their versions.
fn gone(error: kube::Error) -> Gone {
    match error {
        kube::Error::Api(status) => panic!("the server refused: {status:?}"),
        _ => Gone,
    }
}

/// Follows every object through all lives, each time from where the last watch ended, until [`LAST`] is reported.
async fn watch_all(mut lives: Lives, revision: u64) -> BTreeMap<String, Vec<Change>> {
    let mut told = Told { changes: BTreeMap::new(), revision };
    loop {
        let client = lives.borrow_and_update().client.clone();
        if let Some(client) = client
            && told.follow(&config_maps(&client)).await.is_ok_and(|is_last| is_last)
        {
            return told.changes;
        }
        // The server is gone, or closed an old watch: try again with its next life, or soon.
        let _ = tokio::time::timeout(Duration::from_millis(20), lives.changed()).await;
    }
}

struct Told {
    changes: BTreeMap<String, Vec<Change>>,
    /// The newest reported revision, from which the next watch starts.
    revision: u64,
}

impl Told {
    /// Reads one watch to its end; returns whether the last object was reported.
    async fn follow(&mut self, api: &Api<ConfigMap>) -> Result<bool, Gone> {
        let parameters = WatchParams::default().labels("writer");
        let mut events =
            api.watch(&parameters, &self.revision.to_string()).await.map_err(gone)?.map_err(gone).boxed();
        while let Some(event) = events.try_next().await? {
            if self.take(event) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, event: WatchEvent<ConfigMap>) -> bool {
        let (object, change) = match event {
            WatchEvent::Added(object) => (object.clone(), Change::Added(value_of(&object))),
            WatchEvent::Modified(object) => (object.clone(), Change::Modified(value_of(&object))),
            WatchEvent::Deleted(object) => (object, Change::Deleted),
            WatchEvent::Bookmark(_) => return false,
            WatchEvent::Error(status) => panic!("a watch must resume after a crash: {status:?}"),
        };
        let revision = version_of(&object).revision.parse().expect("resourceVersions are numbers");
        assert!(self.revision < revision, "{revision} was reported after {}", self.revision);
        self.revision = revision;
        let name = name_of(&object);
        if name == LAST {
            return true;
        }
        self.changes.entry(name).or_default().push(change);
        false
    }
}

/// Returns the revision before the first write of a writer, where the watch starts.
async fn first_revision(folder: &Path) -> u64 {
    let server = Server::durable(folder).await;
    let list =
        config_maps(&server.client().await).list(&ListParams::default()).await.expect("a fresh server lists");
    server.stop().await;
    let version = list.metadata.resource_version.expect("a list has a version");
    version.parse().expect("resourceVersions are numbers")
}

fn config_maps(client: &kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn object(name: &str, writer: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("writer".to_owned(), writer.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn name_of(object: &ConfigMap) -> String {
    object.metadata.name.clone().expect("a served object has a name")
}

fn value_of(object: &ConfigMap) -> String {
    object
        .data
        .as_ref()
        .and_then(|data| data.get("value"))
        .cloned()
        .expect("every object was written with a value")
}

fn version_of(object: &ConfigMap) -> Version {
    Version {
        uid: object.metadata.uid.clone().expect("a served object has a uid"),
        revision: object.metadata.resource_version.clone().expect("a served object has a version"),
        value: value_of(object),
    }
}
