//! What the server counts: requests by what they asked for and how they ended, how long they took, what is under way.
//!
//! The names are those of kube-apiserver, so its dashboards work. **Invariant:** counting a request costs one look-up
//! under a shared lock and a few atomic additions; labels come from what is served, never from what clients write,
//! and there are at most [`SERIES_MAX`] sets of them. What the listener refuses before the API sees it has no labels but
//! its code.

mod process;
mod refusals;
mod text;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use jiff::Timestamp;

pub(crate) use refusals::Refusals;
pub(crate) use text::{CONTENT_TYPE, render};

use crate::body::Body;
use crate::request::{ResourcePath, Verb};
use crate::resource::Resource;

/// Sets of labels kept apart; later ones are counted together. Built-in kinds alone have a few hundred in use.
const SERIES_MAX: usize = 4096;
/// Upper bounds of durations, in milliseconds, as kube-apiserver has them.
const BOUNDS_MS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000,
    20_000, 30_000, 45_000, 60_000,
];
/// The codes we answer with; the last place counts all others.
const CODES: [u16; 20] =
    [200, 201, 202, 301, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504];
/// Paths that are no resources and are counted apart.
const PATHS: [&str; 7] =
    ["/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3"];

/// What is counted for one set of labels.
#[derive(Default)]
struct Series {
    codes: [AtomicU64; CODES.len() + 1],
    /// How many took at most as long as the bound, and longer than the one before.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
    /// Watches that are open.
    open: AtomicI64,
}

/// The counts of one server.
pub(crate) struct Metrics {
    started: Timestamp,
    series: RwLock<HashMap<Box<str>, Arc<Series>>>,
    reads: AtomicI64,
    writes: AtomicI64,
}

/// What is known of a request while it is answered.
#[derive(Default)]
pub(crate) struct Noted {
    /// The labels, as they are printed.
    labels: String,
    is_watch: bool,
}

/// One more is under way until this is dropped.
pub(crate) struct UnderWay<'a>(&'a AtomicI64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A watch that is open until this is dropped.
struct Open(Arc<Series>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Noted {
    /// Notes a request for a resource.
    pub(crate) fn resource(
        &mut self,
        verb: Option<Verb>,
        path: &ResourcePath,
        resource: &Resource,
        is_dry_run: bool,
    ) {
        self.is_watch = verb == Some(Verb::Watch);
        let scope = match () {
            () if !path.name.is_empty() || verb == Some(Verb::Create) => "resource",
            () if !path.namespace.is_empty() => "namespace",
            () => "cluster",
        };
        let subresource = resource.subresource(&path.subresource).map_or("", |_| &*path.subresource);
        let dry_run = if is_dry_run { "All" } else { "" };
        let (group, version, plural) = (&resource.group, &resource.version, &resource.plural);
        // Writing into text cannot fail.
        let _ = write!(
            self.labels,
            "component=\"apiserver\",dry_run=\"{dry_run}\",group=\"{group}\",resource=\"{plural}\",\
             scope=\"{scope}\",subresource=\"{subresource}\",verb=\"{}\",version=\"{version}\"",
            shown(verb)
        );
    }

    /// Notes a request for anything else.
    pub(crate) fn path(&mut self, method: &Method, path: &str) {
        let path = PATHS.into_iter().find(|known| path.trim_end_matches('/') == *known).unwrap_or_default();
        let verb = if *method == Method::GET { "GET" } else { "OTHER" };
        let _ = write!(
            self.labels,
            "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"{path}\",\
             verb=\"{verb}\",version=\"\""
        );
    }
}

/// Where a code is counted.
fn place(code: u16) -> usize {
    CODES.iter().position(|one| *one == code).unwrap_or(CODES.len())
}

/// The codes as they are printed, in the order of their places.
fn codes() -> impl Iterator<Item = String> {
    CODES.iter().map(u16::to_string).chain(["other".to_owned()])
}

fn shown(verb: Option<Verb>) -> &'static str {
    match verb {
        Some(Verb::Get) => "GET",
        Some(Verb::List) => "LIST",
        Some(Verb::Watch) => "WATCH",
        Some(Verb::Create) => "POST",
        Some(Verb::Update) => "PUT",
        Some(Verb::Patch) => "PATCH",
        Some(Verb::Delete) => "DELETE",
        Some(Verb::DeleteCollection) => "DELETECOLLECTION",
        None => "OTHER",
    }
}

impl Metrics {
    pub(crate) fn new(started: Timestamp) -> Self {
        Self { started, series: RwLock::default(), reads: AtomicI64::new(0), writes: AtomicI64::new(0) }
    }

    /// One more request is under way; a watch is not, for it may last for ever.
    pub(crate) fn begin(&self, verb: Option<Verb>) -> Option<UnderWay<'_>> {
        let gauge = match verb {
            Some(Verb::Watch) => return None,
            Some(Verb::Get | Verb::List) => &self.reads,
            _ => &self.writes,
        };
        gauge.fetch_add(1, Ordering::Relaxed);
        Some(UnderWay(gauge))
    }

    /// Counts a request that was answered, and gives its body back: that of a watch counts as open while it lasts.
    pub(crate) fn end(&self, noted: &Noted, code: u16, took: Duration, body: Body) -> Body {
        let series = self.series(&noted.labels);
        series.codes[place(code)].fetch_add(1, Ordering::Relaxed);
        if !noted.is_watch {
            series.take(took);
            return body;
        }
        let Body::Stream(pieces) = body else { return body };
        series.open.fetch_add(1, Ordering::Relaxed);
        let open = Open(series);
        Body::stream(pieces.map(move |piece| {
            let _ = &open;
            piece
        }))
    }

    fn series(&self, labels: &str) -> Arc<Series> {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(labels) {
            return Arc::clone(series);
        }
        drop(known);
        let mut known = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let labels = if known.len() < SERIES_MAX { labels } else { "" };
        Arc::clone(known.entry(labels.into()).or_default())
    }
}

impl Series {
    fn take(&self, took: Duration) {
        let millis = took.as_micros().div_ceil(1000);
        let bucket =
            BOUNDS_MS.iter().position(|bound| millis <= u128::from(*bound)).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(labels: &str) -> Noted {
        Noted { labels: labels.into(), is_watch: false }
    }

    #[test]
    fn durations_fall_into_the_bucket_they_fit() {
        let series = Series::default();
        for (millis, bucket) in [(0, 0), (5, 0), (6, 1), (60_000, 22), (60_001, 23)] {
            let before = series.buckets[bucket].load(Ordering::Relaxed);
            series.take(Duration::from_millis(millis));
            assert_eq!(series.buckets[bucket].load(Ordering::Relaxed), before + 1, "{millis} ms");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        for at in 0..SERIES_MAX + 10 {
            metrics.end(&noted(&at.to_string()), 200, Duration::ZERO, Body::Empty);
        }
        assert_eq!(metrics.series.read().expect("not poisoned").len(), SERIES_MAX + 1);
        assert_eq!(metrics.series("").codes[0].load(Ordering::Relaxed), 10);
    }
}
