//! Counts the server's metrics: requests by type and result, their durations, and the requests in flight.
//!
//! The names are the same as in kube-apiserver, so its dashboards work. **Invariant:** counting a request costs one
//! lookup under a shared lock and a few atomic additions; labels come from the served resources, never from client
//! input, and there are at most [`SERIES_MAX`] sets of them. Requests that the listener refuses before the API sees
//! them have only their code as a label.

mod process;
mod text;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use homeostat_api::resource::Resource;
use http::Method;
use jiff::Timestamp;

pub(crate) use text::{CONTENT_TYPE, render};

use crate::body::Body;
use crate::refusal_counts::{CODES, code_index};
use crate::request::{ResourcePath, Verb};

/// How many sets of labels are counted separately; further ones are counted together. Built-in kinds alone use a few
/// hundred.
const SERIES_MAX: usize = 4096;
/// Upper bounds of durations, in milliseconds, as in kube-apiserver.
const BOUNDS_MS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000,
    20_000, 30_000, 45_000, 60_000,
];
/// Paths other than resources that are counted separately.
const PATHS: [&str; 7] =
    ["/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3"];

/// The counts for one set of labels.
#[derive(Default)]
struct RequestSeries {
    codes: [AtomicU64; CODES.len() + 1],
    /// How many requests took at most this bound, and longer than the previous one.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
    /// Open watches.
    open: AtomicI64,
}

/// The counts of one server.
pub(crate) struct Metrics {
    started: Timestamp,
    series: RwLock<HashMap<Box<str>, Arc<RequestSeries>>>,
    reads: AtomicI64,
    writes: AtomicI64,
}

/// The labels of a request, collected while it is being served.
#[derive(Default)]
pub(crate) struct RequestLabels {
    /// The labels as they are printed.
    text: String,
    is_watch: bool,
}

/// A request that counts as in flight until this is dropped.
pub(crate) struct InFlightRequest<'a>(&'a AtomicI64);

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A watch that counts as open until this is dropped.
struct OpenWatch(Arc<RequestSeries>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RequestLabels {
    /// Sets the labels of a request for a resource.
    pub(crate) fn set_resource(
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
        // Writing into a string cannot fail.
        let _ = write!(
            self.text,
            "component=\"apiserver\",dry_run=\"{dry_run}\",group=\"{group}\",resource=\"{plural}\",\
             scope=\"{scope}\",subresource=\"{subresource}\",verb=\"{}\",version=\"{version}\"",
            verb_label(verb)
        );
    }

    /// Sets the labels of any other request.
    pub(crate) fn set_path(&mut self, method: &Method, path: &str) {
        let path = PATHS.into_iter().find(|known| path.trim_end_matches('/') == *known).unwrap_or_default();
        let verb = if *method == Method::GET { "GET" } else { "OTHER" };
        let _ = write!(
            self.text,
            "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"{path}\",\
             verb=\"{verb}\",version=\"\""
        );
    }
}

fn verb_label(verb: Option<Verb>) -> &'static str {
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

    /// Counts another request in flight, except for a watch, which may last forever.
    pub(crate) fn begin_request(&self, verb: Option<Verb>) -> Option<InFlightRequest<'_>> {
        let gauge = match verb {
            Some(Verb::Watch) => return None,
            Some(Verb::Get | Verb::List) => &self.reads,
            _ => &self.writes,
        };
        gauge.fetch_add(1, Ordering::Relaxed);
        Some(InFlightRequest(gauge))
    }

    /// Counts a served request and returns its body. The body of a watch counts as open until it is dropped.
    pub(crate) fn end_request(&self, labels: &RequestLabels, code: u16, took: Duration, body: Body) -> Body {
        let series = self.series(&labels.text);
        series.codes[code_index(code)].fetch_add(1, Ordering::Relaxed);
        if !labels.is_watch {
            series.record_duration(took);
            return body;
        }
        let Body::Stream(pieces) = body else { return body };
        series.open.fetch_add(1, Ordering::Relaxed);
        let open = OpenWatch(series);
        Body::stream(pieces.map(move |piece| {
            let _ = &open;
            piece
        }))
    }

    fn series(&self, labels: &str) -> Arc<RequestSeries> {
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

impl RequestSeries {
    fn record_duration(&self, took: Duration) {
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

    fn labels(labels: &str) -> RequestLabels {
        RequestLabels { text: labels.into(), is_watch: false }
    }

    #[test]
    fn durations_fall_into_the_bucket_they_fit() {
        let series = RequestSeries::default();
        for (millis, bucket) in [(0, 0), (5, 0), (6, 1), (60_000, 22), (60_001, 23)] {
            let before = series.buckets[bucket].load(Ordering::Relaxed);
            series.record_duration(Duration::from_millis(millis));
            assert_eq!(series.buckets[bucket].load(Ordering::Relaxed), before + 1, "{millis} ms");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        for at in 0..SERIES_MAX + 10 {
            metrics.end_request(&labels(&at.to_string()), 200, Duration::ZERO, Body::Empty);
        }
        assert_eq!(metrics.series.read().expect("not poisoned").len(), SERIES_MAX + 1);
        assert_eq!(metrics.series("").codes[0].load(Ordering::Relaxed), 10);
    }
}
