//! Determines the type of a request body from its `Content-Type`.
//!
//! The rejections differ between built-in kinds, where a router checks first, and custom kinds, where none does.

use super::MEDIA_TYPES;
use crate::status::Status;

/// The patch types of custom kinds, which do not support strategic merge.
const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEncoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes protobuf.
    Protobuf,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge; built-in kinds only.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// Returns the encoding of a request body from its `Content-Type`; a missing header means JSON.
pub fn body_encoding(content_type: Option<&str>) -> Result<BodyEncoding, Status> {
    match media_type(content_type.unwrap_or_default()).to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(BodyEncoding::Json),
        "application/yaml" => Ok(BodyEncoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(BodyEncoding::Protobuf),
        _ => Err(unsupported_body()),
    }
}

/// Returns the rejection of a request body in an unknown encoding.
pub fn unsupported_body() -> Status {
    Status::unsupported_media_type(MEDIA_TYPES)
}

/// Returns the type of a patch from its `Content-Type`.
pub fn patch_type(content_type: Option<&str>, is_custom: bool) -> Result<PatchType, Status> {
    match media_type(content_type.unwrap_or_default()) {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        "application/strategic-merge-patch+json" if !is_custom => Ok(PatchType::Strategic),
        _ if is_custom => Err(Status::unsupported_media_type(CUSTOM_PATCH_TYPES)),
        _ => Err(Status::not_consumable()),
    }
}

/// Returns the media type without its parameters.
pub(super) fn media_type(header: &str) -> &str {
    header.split_once(';').map_or(header, |(kind, _)| kind).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_known_by_their_type() {
        assert_eq!(body_encoding(None), Ok(BodyEncoding::Json));
        assert_eq!(body_encoding(Some("")), Ok(BodyEncoding::Json));
        assert_eq!(body_encoding(Some("application/json; charset=utf-8")), Ok(BodyEncoding::Json));
        assert_eq!(body_encoding(Some("application/yaml")), Ok(BodyEncoding::Yaml));
        assert_eq!(body_encoding(Some("application/vnd.kubernetes.protobuf")), Ok(BodyEncoding::Protobuf));
        let refusal = body_encoding(Some("text/plain")).expect_err("text is refused");
        assert_eq!(
            (refusal.code, &*refusal.message),
            (
                415,
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf"
            )
        );
    }

    #[test]
    fn patches_are_known_by_their_type() {
        let strategic = Some("application/strategic-merge-patch+json");
        assert_eq!(patch_type(strategic, false), Ok(PatchType::Strategic));
        assert_eq!(
            patch_type(Some("application/merge-patch+json; charset=utf-8"), true),
            Ok(PatchType::Merge)
        );
        assert_eq!(patch_type(Some("application/apply-patch+yaml"), true), Ok(PatchType::Apply));
        let refusal = |kind, is_custom| patch_type(kind, is_custom).expect_err("is refused").message;
        assert_eq!(refusal(Some("application/json"), false), "415: Unsupported Media Type");
        assert!(refusal(strategic, true).ends_with(CUSTOM_PATCH_TYPES));
        assert!(refusal(None, true).ends_with(CUSTOM_PATCH_TYPES));
    }
}
