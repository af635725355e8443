//! Validates the conversion of a definition: none, or a webhook with everything it needs.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Error, Errors, FieldPath};
use crate::names;
use crate::object::read::{list_at, string_at};

/// The review versions that this server speaks.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(conversion: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let webhook = &conversion["webhook"];
    match string_at(conversion, "strategy") {
        "Webhook" => {
            client_config(&webhook["clientConfig"], &path.field("webhookClientConfig"), errors);
            review_versions(webhook, &path.field("conversionReviewVersions"), errors);
        }
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            if !webhook["clientConfig"].is_null() {
                errors.push(Error::forbidden(&path.field("webhookClientConfig"), detail));
            }
            if !list_at(webhook, "conversionReviewVersions").is_empty() {
                errors.push(Error::forbidden(&path.field("conversionReviewVersions"), detail));
            }
        }
        "" => errors.push(Error::required(&path.field("strategy"), "")),
        other => {
            let at = path.field("strategy");
            errors.push(Error::not_supported(&at, &other.into(), &["None", "Webhook"]));
        }
    }
}

fn client_config(config: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let (url, service) = (&config["url"], &config["service"]);
    if config.is_null() {
        errors.push(Error::required(path, "required when strategy is set to Webhook"));
    } else if url.is_null() == service.is_null() {
        errors.push(Error::required(path, "exactly one of url or service is required"));
    } else if let Some(url) = url.as_str() {
        if !url.starts_with("https://") {
            let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            errors.push(Error::invalid(&path.field("url"), &url.into(), detail));
        }
    } else {
        for name in ["name", "namespace"] {
            if string_at(service, name).is_empty() {
                let at = path.field("service");
                errors.push(Error::required(&at.field(name), &format!("service {name} is required")));
            }
        }
    }
}

fn review_versions(webhook: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let versions = list_at(webhook, "conversionReviewVersions");
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if !seen.insert(version.to_string()) {
            errors.push(Error::invalid(&path.index(index), version, "duplicate version"));
            continue;
        }
        for error_text in names::dns1035_label(version.as_str().unwrap_or_default()) {
            errors.push(Error::invalid(&path.index(index), version, &error_text));
        }
    }
    let is_known = |version: &Value| REVIEW_VERSIONS.iter().any(|known| version == known);
    if !versions.iter().any(is_known) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(Error::invalid(path, &webhook["conversionReviewVersions"], &detail));
    }
}
