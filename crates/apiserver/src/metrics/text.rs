//! The counts as Prometheus reads them. Objects are counted when somebody asks, not with every write.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use homeostat_store::Snapshot;

use super::{BOUNDS_MS, Metrics, Refusals, Series, codes, process};
use crate::health;
use crate::keeper::history;
use crate::storage::Storage;

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const MICROS_PER_S: f64 = 1_000_000.0;

/// Everything that is counted, with what is stored now.
pub(crate) fn render(metrics: &Metrics, refusals: &Refusals, snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let series = {
        let known = metrics.series.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(labels, series)| (labels.clone(), Arc::clone(series))).collect::<BTreeMap<_, _>>()
    };
    requests(&mut out, &series);
    turned_away(&mut out, refusals);
    durations(&mut out, &series);
    open(&mut out, &series);
    head(&mut out, "apiserver_current_inflight_requests", "gauge", "Requests under way, watches aside.");
    for (kind, gauge) in [("readOnly", &metrics.reads), ("mutating", &metrics.writes)] {
        let labels = format!("request_kind=\"{kind}\"");
        line(&mut out, "apiserver_current_inflight_requests", &labels, gauge.load(Ordering::Relaxed));
    }
    stored(&mut out, snapshot);
    let version = health::version();
    head(&mut out, "kubernetes_build_info", "gauge", "The version that is served.");
    let labels = format!(
        "git_version={},major={},minor={}",
        version["gitVersion"], version["major"], version["minor"]
    );
    line(&mut out, "kubernetes_build_info", &labels, 1);
    let started = metrics.started.as_second();
    head(&mut out, "process_start_time_seconds", "gauge", "When the server started.");
    line(&mut out, "process_start_time_seconds", "", started);
    for (name, kind, help, value) in process::figures() {
        head(&mut out, name, kind, help);
        line(&mut out, name, "", value);
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into text cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

fn requests(out: &mut String, all: &BTreeMap<Box<str>, Arc<Series>>) {
    let name = "apiserver_request_total";
    head(out, name, "counter", "Requests answered, by what they asked for and the code of the answer.");
    for (labels, series) in all {
        for (code, count) in codes().zip(&series.codes) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let comma = if labels.is_empty() { "" } else { "," };
                line(out, name, &format!("code=\"{code}\"{comma}{labels}"), count);
            }
        }
    }
}

fn turned_away(out: &mut String, refusals: &Refusals) {
    let name = "apiserver_request_terminations_total";
    head(out, name, "counter", "Requests the listener refused or gave up, by the code of the answer.");
    for (code, count) in refusals.counted() {
        line(out, name, &format!("code=\"{code}\",component=\"apiserver\""), count);
    }
}

fn durations(out: &mut String, all: &BTreeMap<Box<str>, Arc<Series>>) {
    let name = "apiserver_request_duration_seconds";
    head(out, name, "histogram", "How long requests took until their answer began, watches aside.");
    for (labels, series) in all {
        let counts = series.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let total = counts.iter().sum::<u64>();
        if total == 0 {
            continue;
        }
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = BOUNDS_MS.iter().map(|bound| seconds(bound * 1000).to_string());
        let mut below = 0;
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
            below += count;
            line(out, &format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), below);
        }
        line(out, &format!("{name}_sum"), labels, seconds_of(&series.sum_us));
        line(out, &format!("{name}_count"), labels, total);
    }
}

fn seconds_of(micros: &AtomicU64) -> f64 {
    seconds(micros.load(Ordering::Relaxed))
}

#[expect(clippy::cast_precision_loss, reason = "a sum of durations is not read to the microsecond")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / MICROS_PER_S
}

fn open(out: &mut String, all: &BTreeMap<Box<str>, Arc<Series>>) {
    let name = "apiserver_longrunning_requests";
    head(out, name, "gauge", "Watches that are open.");
    for (labels, series) in all.iter().filter(|(labels, _)| labels.contains("verb=\"WATCH\"")) {
        line(out, name, labels, series.open.load(Ordering::Relaxed));
    }
}

fn stored(out: &mut String, snapshot: &Snapshot) {
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    let mut bytes = 0;
    for entry in snapshot.iter().filter(|entry| entry.key.resource() != history::RESOURCE) {
        let storage = Storage::of_key(&entry.key);
        *counts.entry((storage.group(), storage.plural())).or_default() += 1;
        bytes += entry.bytes.len() as u64;
    }
    head(out, "apiserver_storage_objects", "gauge", "Objects stored.");
    for ((group, resource), count) in counts {
        let dot = if group.is_empty() { "" } else { "." };
        line(out, "apiserver_storage_objects", &format!("resource=\"{resource}{dot}{group}\""), count);
    }
    head(out, "apiserver_storage_size_bytes", "gauge", "Bytes of all objects stored.");
    line(out, "apiserver_storage_size_bytes", "storage_cluster_id=\"homeostat\"", bytes);
    head(out, "homeostat_store_revision", "counter", "Commits of this history; the newest resourceVersion.");
    line(out, "homeostat_store_revision", "", snapshot.revision());
}
