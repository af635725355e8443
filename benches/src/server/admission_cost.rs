//! Measures what admission costs when nothing is configured: the processor time of creations in this process,
//! alternating between Kubernetes' plugins and none, so that other work on the machine affects both alike.
//!
//! The processor time includes the client, as it does for every request; its share is small, because requests are
//! passed directly to the server.

use std::sync::Arc;

use bytes::Bytes;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::admission::AdmissionConfig;
use homeostat_store::Memory;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tower::ServiceExt as _;

use super::process::processor_seconds_of;
use crate::figure::{Figure, FigureTarget};

/// The number of runs of each kind; their median counts.
const RUNS: usize = 10;
/// The maximum share of a request's processor time, in percent.
const SHARE_MAX: f64 = 3.0;
/// All plugins except ServiceAccount, which in-process servers leave out.
const PLUGINS: [&str; 18] = [
    "NamespaceLifecycle",
    "LimitRanger",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

/// Measures creations of ConfigMaps and of Pods.
pub(super) async fn measure(objects: usize) -> Result<Vec<Figure>, Box<dyn std::error::Error>> {
    let mut figures = Vec::new();
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    for (resource, part) in [("configmaps", ("data", json!({"a": "b"}))), ("pods", ("spec", pod))] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            without.push(microseconds_per_create(&PLUGINS, resource, &part, objects).await?);
            with.push(microseconds_per_create(&[], resource, &part, objects).await?);
        }
        let (with, without) = (median(with), median(without));
        figures.push(Figure::new(format!("create {resource} without admission"), without, "µs of processor"));
        figures.push(Figure::new(format!("create {resource} with admission"), with, "µs of processor"));
        let share = (with - without) / without * 100.0;
        figures.push(
            Figure::new(format!("share of admission, {resource}"), share, "%")
                .target(FigureTarget::AtMost(SHARE_MAX)),
        );
    }
    Ok(figures)
}

async fn microseconds_per_create(
    disabled: &[&str],
    resource: &str,
    (field, content): &(&str, serde_json::Value),
    objects: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let disabled =
        disabled.iter().chain(&["ServiceAccount"]).map(|&name| name.to_owned()).collect::<Vec<_>>();
    let plugins = AdmissionConfig::new(&[], &disabled)?;
    // The background tasks do not run, because they would also be measured.
    let (server, _background) =
        ApiServer::builder(Arc::new(Memory::new())).admission(plugins).build().await?;
    let before = processor_seconds_of("self")?;
    for number in 0..objects {
        let body = json!({"metadata": {"name": format!("o{number}")}, (*field): content}).to_string();
        let request = Request::post(format!("/api/v1/namespaces/default/{resource}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = server.clone().oneshot(request).await?;
        if response.status() != 201 {
            return Err(format!("a creation was answered with {}", response.status()).into());
        }
    }
    let seconds = processor_seconds_of("self")? - before;
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let each = seconds * 1e6 / objects as f64;
    Ok(each)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
