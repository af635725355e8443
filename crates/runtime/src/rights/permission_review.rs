//! Checks at startup that the operator may do what its builder declared, and names exactly which permissions are
//! missing.
//!
//! It only informs: a missing permission shows up as a failing watch or write, works as soon as it is granted, and does
//! not stop anything else. A review that the server did not answer does not count as granted and is requested again.

use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::core::Request as Path;
use kube::{Client, Resource};
use serde::Deserialize;

use super::required_rules::{MergedRule, Rule, merge_rules};
use crate::error::Error;
use crate::request::{RequestLabel, send_request};

/// The maximum number of concurrent reviews. Each opens its own connection, whose handshake costs more than the
/// response, and the first lists matter more than the reviews.
const REVIEWS_AT_ONCE: usize = 2;

/// The relevant part of the answer to a review.
#[derive(Deserialize)]
struct RightsReview {
    status: Option<SubjectAccessReviewStatus>,
}

/// The known facts about the client's permissions, as messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Missing permissions.
    pub(crate) missing: Vec<String>,
    /// Reviews that the server did not answer, and why.
    pub(crate) unknown: Vec<String>,
}

impl Rights {
    /// Returns whether the client has every permission that was reviewed.
    pub(crate) fn are_complete(&self) -> bool {
        self.missing.is_empty() && self.unknown.is_empty()
    }

    /// Combines the two.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.missing.extend(other.missing);
        self.unknown.extend(other.unknown);
        self
    }

    /// Returns a line for each missing permission, and one for all unknown ones: usually the server was unreachable,
    /// and one reason suffices for all.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.missing.iter().map(|missing| format!("this operator {missing}")).collect();
        if let Some(first) = self.unknown.first() {
            let count = self.unknown.len();
            lines.push(format!(
                "{count} rights of this operator are not known yet; they are being asked for again ({first})"
            ));
        }
        lines
    }
}

/// Asks the server whether this client has the permissions that the rules name.
pub(crate) async fn review_rights(client: &Client, namespace: Option<&str>, rules: &[Rule]) -> Rights {
    let wanted = merge_rules(rules).into_iter().flat_map(|rule| {
        let MergedRule { group, resource, verbs, is_namespaced } = rule;
        let namespace = namespace.filter(|_| is_namespaced);
        verbs.into_iter().map(move |verb| review_attributes(&group, &resource, verb, namespace))
    });
    let reviews = stream::iter(wanted.collect::<Vec<_>>())
        .map(|attributes| async move { (ask_right(client, &attributes).await, attributes) })
        .buffered(REVIEWS_AT_ONCE);
    let reviews: Vec<_> = reviews.collect().await;
    let mut rights = Rights::default();
    for (answer, attributes) in reviews {
        match answer {
            Ok(true) => {}
            Ok(false) => rights.missing.push(format!("may not {}", describe_right(&attributes))),
            // An unanswered review proves nothing either way.
            Err(error) => rights.unknown.push(format!("may it {}? {error:?}", describe_right(&attributes))),
        }
    }
    rights
}

fn review_attributes(group: &str, resource: &str, verb: &str, namespace: Option<&str>) -> ResourceAttributes {
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

async fn ask_right(client: &Client, attributes: &ResourceAttributes) -> Result<bool, Error> {
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
    let label = RequestLabel { verb: "review", target: "own rights" };
    let answer: RightsReview = send_request(client, label, request).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn describe_right(attributes: &ResourceAttributes) -> String {
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
    format!("{} {what} {place}", text(&attributes.verb))
}
