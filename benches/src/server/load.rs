//! Generates load: creates, reads, lists, watches and deletes through a kube client.
//!
//! Bodies of lists and watches are counted, not decoded, so that the figure is the server's and not that of the
//! client's JSON parser.
#![expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::Outcome;

pub(crate) const NAMESPACE: &str = "bench";
/// The length of the string in each object, so that the stored object is about a kilobyte.
const PAYLOAD_BYTES: usize = 530;
/// A continue token is within the first bytes of a response, up to this number.
const HEAD_BYTES: usize = 600;
/// How many lists of each kind are made; their median counts, because a single one may be disturbed.
const LISTS: usize = 11;
/// The number of rounds of watched updates, for the same reason: each takes a tenth of a second.
const WATCH_ROUNDS: usize = 7;
/// How many clients update watched objects: as many as create and read.
const UPDATERS: usize = 64;
/// The number of values of the label `shard`, over which objects are spread.
pub(crate) const SHARDS: usize = 100;

/// The rate and the latencies of a number of calls.
pub(crate) struct CallRate {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Drives one server.
pub(crate) struct LoadGenerator {
    client: Client,
    maps: Api<ConfigMap>,
}

impl LoadGenerator {
    pub(crate) fn new(client: Client) -> Self {
        let maps = Api::namespaced(client.clone(), NAMESPACE);
        Self { client, maps }
    }

    /// Creates the namespace for all objects, unless it exists.
    pub(crate) async fn namespace(&self) -> Outcome<()> {
        let metadata = ObjectMeta { name: Some(NAMESPACE.into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let created =
            Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await;
        match created {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => Ok(created.map(drop)?),
        }
    }

    /// Deletes all our objects.
    pub(crate) async fn clear(&self) -> Outcome<()> {
        let ours = ListParams::default().labels("app=bench");
        self.maps.delete_collection(&DeleteParams::default(), &ours).await?;
        Ok(())
    }

    /// Creates `count` objects named after `prefix`, with `clients` concurrent clients.
    pub(crate) async fn create(
        &self,
        clients: usize,
        count: usize,
        prefix: &'static str,
    ) -> Outcome<CallRate> {
        self.run(clients, count, move |maps, at| async move {
            maps.create(&PostParams::default(), &object(prefix, at)).await.map(|_| ())
        })
        .await
    }

    /// Creates one object.
    pub(crate) async fn create_one(&self, prefix: &str, at: usize) -> Outcome<()> {
        self.maps.create(&PostParams::default(), &object(prefix, at)).await?;
        Ok(())
    }

    /// Reads some of the many objects, with `clients` concurrent clients.
    pub(crate) async fn get(&self, clients: usize, count: usize, objects: usize) -> Outcome<CallRate> {
        self.run(clients, count, move |maps, at| async move {
            // A stride that visits all objects in an order from which the server cannot benefit.
            let name = format!("many-{}", (at * 7919) % objects);
            maps.get(&name).await.map(|_| ())
        })
        .await
    }

    /// Deletes the many objects, with `clients` concurrent clients.
    pub(crate) async fn delete(&self, clients: usize, count: usize) -> Outcome<CallRate> {
        self.run(clients, count, |maps, at| async move {
            maps.delete(&format!("many-{at}"), &DeleteParams::default()).await.map(|_| ())
        })
        .await
    }

    async fn run<F>(
        &self,
        clients: usize,
        count: usize,
        call: impl Fn(Api<ConfigMap>, usize) -> F + Clone + Send + 'static,
    ) -> Outcome<CallRate>
    where
        F: Future<Output = kube::Result<()>> + Send,
    {
        self.connect(clients).await?;
        let next = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let workers = (0..clients).map(|_| {
            let (next, maps, call) = (Arc::clone(&next), self.maps.clone(), call.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return Ok::<_, kube::Error>(times);
                    }
                    let begun = Instant::now();
                    call(maps.clone(), at).await?;
                    times.push(begun.elapsed());
                }
            })
        });
        let mut times = Vec::with_capacity(count);
        for worker in try_join_all(workers).await? {
            times.extend(worker?);
        }
        Ok(rate(times, start.elapsed()))
    }

    /// Opens the connections for this many clients, so that the first calls are measured without the handshakes.
    async fn connect(&self, clients: usize) -> Outcome<()> {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        try_join_all((0..clients).map(|_| namespaces.get(NAMESPACE))).await?;
        Ok(())
    }

    /// Lists with this query several times; returns the median time and the size in megabytes.
    pub(crate) async fn list(&self, query: &str) -> Outcome<(Duration, f64)> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?{query}");
        let (mut times, mut size) = (Vec::new(), 0);
        for _ in 0..LISTS {
            let start = Instant::now();
            (size, _) = self.fetch(&path).await?;
            times.push(start.elapsed());
        }
        Ok((median(times), size as f64 / 1e6))
    }

    /// Lists page by page several times; returns the median time of a whole list.
    pub(crate) async fn pages(&self, limit: usize) -> Outcome<Duration> {
        let mut times = Vec::new();
        for _ in 0..LISTS {
            times.push(self.all_pages(limit).await?);
        }
        Ok(median(times))
    }

    async fn all_pages(&self, limit: usize) -> Outcome<Duration> {
        let start = Instant::now();
        let mut token = String::new();
        loop {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?limit={limit}&continue={token}");
            let (_, head) = self.fetch(&path).await?;
            match continue_token(&head) {
                Some(next) => token = next,
                None => return Ok(start.elapsed()),
            }
        }
    }

    /// Returns the size of a response, and its beginning.
    async fn fetch(&self, path: &str) -> Outcome<(usize, Vec<u8>)> {
        let request = http::Request::get(path).body(Body::empty())?;
        let mut body = self.client.send(request).await?.into_body();
        let (mut size, mut head) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                size += data.len();
                let wanted = HEAD_BYTES.saturating_sub(head.len()).min(data.len());
                head.extend_from_slice(&data[..wanted]);
            }
        }
        Ok((size, head))
    }

    /// Updates objects `updates` times, with several clients, while `watchers` watch. Returns the events delivered per
    /// second, the median of several rounds. The watchers have their own client: otherwise they would take the
    /// updaters' connections, and the measured time would include new handshakes.
    pub(crate) async fn watch(&self, observer: &Client, watchers: usize, updates: usize) -> Outcome<f64> {
        let mut objects = Vec::new();
        for at in 0..UPDATERS {
            objects.push(self.maps.create(&PostParams::default(), &object("watched", at)).await?);
        }
        let mut times = Vec::new();
        for _ in 0..WATCH_ROUNDS {
            let bodies = open(observer, watchers, &objects).await?;
            let start = Instant::now();
            objects = self.watched(bodies, objects, updates).await?;
            times.push(start.elapsed());
        }
        Ok((watchers * updates) as f64 / median(times).as_secs_f64())
    }

    /// Returns how many events all rounds of [`Self::watch`] deliver.
    pub(crate) const fn watch_events(watchers: usize, updates: usize) -> usize {
        WATCH_ROUNDS * watchers * updates
    }

    /// Runs one round until every watch has seen every update. Returns the resulting objects.
    async fn watched(
        &self,
        bodies: Vec<Body>,
        objects: Vec<ConfigMap>,
        updates: usize,
    ) -> Outcome<Vec<ConfigMap>> {
        let counting =
            bodies.into_iter().map(|body| tokio::spawn(count_lines(body, updates))).collect::<Vec<_>>();
        let writing = objects.into_iter().enumerate().map(|(at, object)| {
            let share = updates / UPDATERS + usize::from(at < updates % UPDATERS);
            tokio::spawn(update(self.maps.clone(), object, share))
        });
        let written = try_join_all(writing).await?.into_iter().collect::<kube::Result<_>>()?;
        for counter in counting {
            counter.await?.map_err(|error| -> Box<dyn Error> { error })?;
        }
        Ok(written)
    }
}

/// Opens watches that begin after the newest of these objects.
async fn open(client: &Client, watchers: usize, objects: &[ConfigMap]) -> Outcome<Vec<Body>> {
    let revision = |object: &ConfigMap| object.metadata.resource_version.as_ref()?.parse::<u64>().ok();
    let from = objects.iter().filter_map(revision).max().unwrap_or_default();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&resourceVersion={from}");
    try_join_all((0..watchers).map(|_| {
        let (client, path) = (client.clone(), path.clone());
        async move {
            let request = http::Request::get(path).body(Body::empty())?;
            Ok(client.send(request).await?.into_body())
        }
    }))
    .await
}

/// Replaces an object `count` times, each time with what the server returned.
async fn update(maps: Api<ConfigMap>, mut object: ConfigMap, count: usize) -> kube::Result<ConfigMap> {
    let name = object.metadata.name.clone().unwrap_or_default();
    for at in 0..count {
        object.metadata.labels.get_or_insert_default().insert("at".into(), at.to_string());
        object = maps.replace(&name, &PostParams::default(), &object).await?;
    }
    Ok(object)
}

async fn count_lines(mut body: Body, wanted: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut lines = 0;
    while lines < wanted {
        let frame = body.frame().await.ok_or("the watch ended early")??;
        if let Ok(data) = frame.into_data() {
            lines += memchr::memchr_iter(b'\n', &data).count();
        }
    }
    Ok(())
}

fn continue_token(bytes: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = head.split_once(r#""continue":""#)?;
    Some(rest.split('"').next()?.to_owned())
}

fn object(prefix: &str, at: usize) -> ConfigMap {
    let labels = [("shard".to_owned(), (at % SHARDS).to_string()), ("app".to_owned(), "bench".to_owned())];
    let metadata = ObjectMeta {
        name: Some(format!("{prefix}-{at}")),
        labels: Some(labels.into()),
        ..ObjectMeta::default()
    };
    let data = [("payload".to_owned(), "x".repeat(PAYLOAD_BYTES))];
    ConfigMap { metadata, data: Some(data.into()), ..ConfigMap::default() }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn rate(mut times: Vec<Duration>, elapsed: Duration) -> CallRate {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    CallRate { per_second: times.len() as f64 / elapsed.as_secs_f64(), p50: at(50), p99: at(99) }
}
