//! Determines which form and encoding of the response a request accepts.

use homeostat_api::negotiate::{self, AnswerPreferences, EndpointForms, OfferedForms, Representation};
use homeostat_api::resource::Resource;
use homeostat_api::response_forms;
use homeostat_api::status::Status;
use http::header;
use http::request::Parts;

use super::{ResourcePath, Verb};

/// Returns how to show a refusal: as requested, or as JSON if that is impossible. A refusal has only its own form,
/// and can be encoded where a custom object cannot.
pub(crate) fn refusal_representation(parts: &Parts) -> Representation {
    let endpoint = EndpointForms { forms: OfferedForms::Plain, is_custom: false, is_collection: true };
    negotiate::representation(&accept_headers(parts), endpoint).unwrap_or_default()
}

/// Returns the form and encoding of the response, or refuses a request that accepts none of the available ones.
pub(crate) fn negotiate_representation(
    parts: &Parts,
    verb: Verb,
    resource: &Resource,
    path: &ResourcePath,
) -> Result<Representation, Status> {
    let endpoint = EndpointForms {
        forms: response_forms::forms(resource, Some(&*path.subresource).filter(|name| !name.is_empty())),
        is_custom: resource.is_custom(),
        is_collection: path.name.is_empty(),
    };
    match verb {
        Verb::Watch => negotiate::watch_representation(&accept_headers(parts), endpoint),
        _ => negotiate::representation(&accept_headers(parts), endpoint),
    }
}

/// Returns the headers and options that describe which responses the client accepts.
pub(crate) fn accept_headers(parts: &Parts) -> AnswerPreferences<'_> {
    AnswerPreferences {
        accept: text_header(parts, &header::ACCEPT),
        query: parts.uri.query().unwrap_or_default(),
        user_agent: text_header(parts, &header::USER_AGENT),
    }
}

/// Returns a header, if it is present and valid text.
pub(crate) fn text_header<'a>(parts: &'a Parts, name: &header::HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}
