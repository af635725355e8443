//! What the disk store does on this machine: the figures of `docs/why/store.md`.
//!
//! ```text
//! cargo run --release -p homeostat-store --example throughput -- write FOLDER CLIENTS SECONDS
//! cargo run --release -p homeostat-store --example throughput -- overwrite FOLDER WRITES
//! cargo run --release -p homeostat-store --example throughput -- fill FOLDER OBJECTS
//! cargo run --release -p homeostat-store --example throughput -- start FOLDER
//! ```
//! Values are 1 000 bytes over 10 000 keys. Each command ends with memory and folder size.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::{Clock, Entropy, Key};
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Expect, Op, SharedStore, Txn, Value};

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 1_000;
const OVERWRITE_CLIENTS: u64 = 64;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (folder, report) = match words[..] {
        ["write", folder, clients, seconds] => {
            (folder, write(&open(folder)?, clients.parse()?, Duration::from_secs(seconds.parse()?)).await)
        }
        ["overwrite", folder, writes] => (folder, overwrite(&open(folder)?, writes.parse()?, KEYS).await),
        ["fill", folder, objects] => (folder, fill(&open(folder)?, objects.parse()?).await),
        ["start", folder] => (folder, start(folder)?),
        _ => return Err("say write, overwrite, fill or start; see the head of this file".into()),
    };
    println!("{report}; folder {} MB", folder_bytes(Path::new(folder))? >> 20);
    Ok(())
}

fn open(folder: &str) -> Result<SharedStore, homeostat_store::Error> {
    Ok(Arc::new(Disk::open(folder, &Config::default())?))
}

fn put(number: u64) -> Txn {
    let key = Key::new("apps", "deployments", "default", &format!("object-{number:07}"));
    Txn::one(key, Expect::Any, Op::Put(Value::plain(vec![b'x'; VALUE_BYTES])))
}

/// Clients that each write one value after the other.
async fn write(store: &SharedStore, clients: u64, time: Duration) -> String {
    let clock = Clock::system();
    let begin = clock.instant();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (store, entropy) = (Arc::clone(store), Entropy::seeded(client));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while clock.since(begin) < time {
                    let asked = clock.instant();
                    store.commit(put(entropy.below(KEYS))).await.expect("the disk has room");
                    latencies.push(clock.since(asked));
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("a client does not panic"));
    }
    latencies.sort_unstable();
    let rate = latencies.len() as u64 / time.as_secs();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    format!("{clients} clients: {rate} commits/s, p50 {:?}, p99 {:?}{}", at(50), at(99), memory())
}

async fn overwrite(store: &SharedStore, writes: u64, keys: u64) -> String {
    let clock = Clock::system();
    let begin = clock.instant();
    let tasks: Vec<_> = (0..OVERWRITE_CLIENTS)
        .map(|client| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for index in 0..writes / OVERWRITE_CLIENTS {
                    let number = (index * OVERWRITE_CLIENTS + client) % keys;
                    store.commit(put(number)).await.expect("the disk has room");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a client does not panic");
    }
    format!("{writes} writes in {:?}{}", clock.since(begin), memory())
}

async fn fill(store: &SharedStore, objects: u64) -> String {
    overwrite(store, objects, objects).await
}

fn start(folder: &str) -> Result<String, homeostat_store::Error> {
    let clock = Clock::system();
    let begin = clock.instant();
    let store = open(folder)?;
    Ok(format!("{} objects after {:?}{}", store.snapshot().len(), clock.since(begin), memory()))
}

/// Resident and highest resident memory, where the system tells.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM")).fold(
        String::new(),
        |mut out, line| {
            let _ = write!(out, ", {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
            out
        },
    )
}

fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
