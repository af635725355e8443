//! Checks at start that the operator may do what its builder declared, and names exactly what is missing.
//!
//! It only informs: what is missing shows up as a failing watch or write, heals when the right is granted, and keeps
//! nothing else from working.

use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::core::Request as Path;
use kube::{Client, Resource};
use serde::Deserialize;

use crate::error::Error;
use crate::rule::{Rule, merge};
use crate::talk::{Attempt, call};

/// Reviews under way at a time. Each of them opens a connection of its own, whose handshake costs more than the answer,
/// and the first lists matter more than the verdict.
const REVIEWS_AT_ONCE: usize = 2;

/// The answer to a review, as far as it matters.
#[derive(Deserialize)]
struct Review {
    status: Option<SubjectAccessReviewStatus>,
}

/// What this client may not do of what the rules say, in words.
pub(crate) async fn missing(client: &Client, namespace: Option<&str>, rules: &[Rule]) -> Vec<String> {
    let wanted = merge(rules).into_iter().flat_map(|((group, resource), (verbs, is_namespaced))| {
        let namespace = namespace.filter(|_| is_namespaced);
        verbs.into_iter().map(move |verb| attributes(&group, &resource, verb, namespace))
    });
    let reviews = stream::iter(wanted.collect::<Vec<_>>())
        .map(|attributes| async move {
            let is_allowed = review(client, &attributes).await;
            // An unanswered review proves nothing.
            is_allowed.is_ok_and(|is_allowed| !is_allowed).then(|| words(&attributes))
        })
        .buffered(REVIEWS_AT_ONCE);
    reviews.filter_map(|lacking| async { lacking }).collect().await
}

fn attributes(group: &str, resource: &str, verb: &str, namespace: Option<&str>) -> ResourceAttributes {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    }
}

async fn review(client: &Client, attributes: &ResourceAttributes) -> Result<bool, Error> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes.clone()),
            ..Default::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let body = serde_json::to_vec(&review).map_err(|error| Error::Invalid(error.to_string()))?;
    let request =
        Path::new(SelfSubjectAccessReview::url_path(&(), None)).create(&PostParams::default(), body);
    let attempt = Attempt { verb: "review", target: "own rights" };
    let answer: Review = call(client, attempt, request).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn words(attributes: &ResourceAttributes) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let mut what = text(&attributes.resource);
    if let Some(subresource) = &attributes.subresource {
        what = format!("{what}/{subresource}");
    }
    if attributes.group.as_deref().is_some_and(|group| !group.is_empty()) {
        what = format!("{what}.{}", text(&attributes.group));
    }
    let place = match &attributes.namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in all namespaces".to_owned(),
    };
    format!("may not {} {what} {place}", text(&attributes.verb))
}
