//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: call users' servers about writes.
//!
//! Mutating webhooks are called one after another, ordered by the name of their configuration and their index in it;
//! validating webhooks are called concurrently.
//!
//! **Invariant:** a webhook can only affect the requests that it is called for; see [`crate::webhook_client`].

mod admission_review;
mod dispatch;
mod response;

use futures::future::{BoxFuture, join_all};
use homeostat_api::kinds::admissionregistration::mutating_webhook_configuration::MUTATING_WEBHOOK_CONFIGURATION;
use homeostat_api::kinds::admissionregistration::validating_webhook_configuration::VALIDATING_WEBHOOK_CONFIGURATION;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::status::Status;
use serde_json::Value;

pub(super) use self::admission_review::describe;
use self::dispatch::{Webhook, ask};
pub(super) use self::dispatch::{convert_between, described};
use super::AdmissionRequest;
use super::plugin::{Mutate, Plugin, Validate};
use super::request_matching::is_admissible;
use crate::expensive_requests::step_aside;
use crate::stored::encode;

pub(super) static MUTATING: Plugin = Plugin {
    mutate: Mutate::Waiting(mutate_boxed),
    ..Plugin::configured("MutatingAdmissionWebhook", is_admissible)
};

pub(super) static VALIDATING: Plugin = Plugin {
    validate: Validate::Waiting(validate_boxed),
    ..Plugin::configured("ValidatingAdmissionWebhook", is_admissible)
};

fn mutate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    object: &'a mut Value,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(mutate(request, object))
}

fn validate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    object: &'a Value,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(validate(request, object))
}

/// Returns the stored webhooks of one kind, in order.
fn webhooks(request: &AdmissionRequest<'_>, kind: &BuiltInKind) -> Vec<Webhook> {
    let (snapshot, prefix) = (request.snapshot(), kind.storage().prefix());
    let mut webhooks = Vec::new();
    for entry in snapshot.range(&prefix, "") {
        let mut configuration = encode::parse_entry(entry);
        let list = configuration["webhooks"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let numbered = list.into_iter().enumerate();
        webhooks
            .extend(numbered.map(|(at, spec)| Webhook { id: format!("{}/{at}", entry.key.name()), spec }));
    }
    webhooks
}

async fn mutate(request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
    let webhooks = webhooks(request, &MUTATING_WEBHOOK_CONFIGURATION);
    if webhooks.is_empty() {
        return Ok(());
    }
    request.reinvocation().begin_webhooks(object);
    for webhook in webhooks {
        if request.reinvocation().must_skip(&webhook.id) {
            continue;
        }
        let Some(invocation) = dispatch::invocation(request, &webhook, object).await? else { continue };
        let is_changed = match ask(request, &webhook, &invocation, object, true).await {
            Ok(response) => response.patch(request, &webhook, invocation, object).await?,
            Err(failure) => {
                failure.or_ignored(&webhook)?;
                false
            }
        };
        let wants_news = webhook.spec["reinvocationPolicy"] == "IfNeeded";
        request.reinvocation().record_answer(&webhook.id, is_changed, wants_news);
    }
    request.reinvocation().end_webhooks(object);
    Ok(())
}

async fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    let mut asked = Vec::new();
    for webhook in webhooks(request, &VALIDATING_WEBHOOK_CONFIGURATION) {
        if let Some(invocation) = dispatch::invocation(request, &webhook, object).await? {
            asked.push((webhook, invocation));
        }
    }
    let answers = asked.iter().map(|(webhook, invocation)| async move {
        match ask(request, webhook, invocation, object, false).await {
            Ok(_) => Ok(()),
            Err(failure) => failure.or_ignored(webhook),
        }
    });
    // All of them wait together, and give up their slot together.
    step_aside(join_all(answers)).await.into_iter().collect()
}
