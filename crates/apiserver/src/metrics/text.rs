//! Writes the metrics in the Prometheus text format. Objects are counted on request, not with every write.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_store::Snapshot;

use super::{BOUNDS_MS, Metrics, RequestSeries, process};
use crate::health;
use crate::idle_revision_bump;
use crate::refusal_counts::{RefusalCounts, codes};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const MICROS_PER_S: f64 = 1_000_000.0;

/// Returns all metrics, including the number of stored objects.
pub(crate) fn render(metrics: &Metrics, refusals: &RefusalCounts, snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let series = {
        let known = metrics.series.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(labels, series)| (labels.clone(), Arc::clone(series))).collect::<BTreeMap<_, _>>()
    };
    write_request_counts(&mut out, &series);
    write_refusal_counts(&mut out, refusals);
    write_durations(&mut out, &series);
    write_open_watches(&mut out, &series);
    write_header(
        &mut out,
        "apiserver_current_inflight_requests",
        "gauge",
        "Requests in flight, without watches.",
    );
    for (kind, gauge) in [("readOnly", &metrics.reads), ("mutating", &metrics.writes)] {
        let labels = format!("request_kind=\"{kind}\"");
        write_sample(&mut out, "apiserver_current_inflight_requests", &labels, gauge.load(Ordering::Relaxed));
    }
    write_stored_objects(&mut out, snapshot);
    let version = health::version();
    write_header(&mut out, "kubernetes_build_info", "gauge", "The served version.");
    let labels = format!(
        "git_version={},major={},minor={}",
        version["gitVersion"], version["major"], version["minor"]
    );
    write_sample(&mut out, "kubernetes_build_info", &labels, 1);
    let started = metrics.started.as_second();
    write_header(&mut out, "process_start_time_seconds", "gauge", "When the server started.");
    write_sample(&mut out, "process_start_time_seconds", "", started);
    for (name, kind, help, value) in process::process_figures() {
        write_header(&mut out, name, kind, help);
        write_sample(&mut out, name, "", value);
    }
    out
}

fn write_header(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_sample(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

fn write_request_counts(out: &mut String, all: &BTreeMap<Box<str>, Arc<RequestSeries>>) {
    let name = "apiserver_request_total";
    write_header(out, name, "counter", "Answered requests by type and status code.");
    for (labels, series) in all {
        for (code, count) in codes().zip(&series.codes) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let comma = if labels.is_empty() { "" } else { "," };
                write_sample(out, name, &format!("code=\"{code}\"{comma}{labels}"), count);
            }
        }
    }
}

fn write_refusal_counts(out: &mut String, refusals: &RefusalCounts) {
    let name = "apiserver_request_terminations_total";
    write_header(out, name, "counter", "Requests that the listener refused or aborted, by status code.");
    for (code, count) in refusals.counted() {
        write_sample(out, name, &format!("code=\"{code}\",component=\"apiserver\""), count);
    }
}

fn write_durations(out: &mut String, all: &BTreeMap<Box<str>, Arc<RequestSeries>>) {
    let name = "apiserver_request_duration_seconds";
    write_header(out, name, "histogram", "Time until the answer began, without watches.");
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
            write_sample(out, &format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), below);
        }
        write_sample(out, &format!("{name}_sum"), labels, seconds_of(&series.sum_us));
        write_sample(out, &format!("{name}_count"), labels, total);
    }
}

fn seconds_of(micros: &AtomicU64) -> f64 {
    seconds(micros.load(Ordering::Relaxed))
}

#[expect(clippy::cast_precision_loss, reason = "a sum of durations is not read to the microsecond")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / MICROS_PER_S
}

fn write_open_watches(out: &mut String, all: &BTreeMap<Box<str>, Arc<RequestSeries>>) {
    let name = "apiserver_longrunning_requests";
    write_header(out, name, "gauge", "Open watches.");
    for (labels, series) in all.iter().filter(|(labels, _)| labels.contains("verb=\"WATCH\"")) {
        write_sample(out, name, labels, series.open.load(Ordering::Relaxed));
    }
}

fn write_stored_objects(out: &mut String, snapshot: &Snapshot) {
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    let mut bytes = 0;
    for entry in snapshot.iter().filter(|entry| entry.key.resource() != idle_revision_bump::RESOURCE) {
        let storage = ResourceIdentity::of_key(&entry.key);
        *counts.entry((storage.group(), storage.plural())).or_default() += 1;
        bytes += entry.bytes.len() as u64;
    }
    write_header(out, "apiserver_storage_objects", "gauge", "Objects stored.");
    for ((group, resource), count) in counts {
        let dot = if group.is_empty() { "" } else { "." };
        write_sample(
            out,
            "apiserver_storage_objects",
            &format!("resource=\"{resource}{dot}{group}\""),
            count,
        );
    }
    write_header(out, "apiserver_storage_size_bytes", "gauge", "Total size of all stored objects.");
    write_sample(out, "apiserver_storage_size_bytes", "storage_cluster_id=\"homeostat\"", bytes);
    write_header(out, "homeostat_store_revision", "counter", "The newest resourceVersion.");
    write_sample(out, "homeostat_store_revision", "", snapshot.revision());
}
