//! Reduces objects to their metadata: `PartialObjectMetadata` and its list, which metadata informers and garbage
//! collectors read.

use serde_json::Value;

use super::ListMeta;
use crate::negotiate::MetaVersion;
use crate::resource::Resource;
use crate::status::Status;

/// Writes one object's metadata.
pub(super) fn object(out: &mut Vec<u8>, object: &Value, version: MetaVersion) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    super::write(out, object.get("metadata").unwrap_or(&Value::Null));
    out.push(b'}');
}

/// Writes the beginning of a list of metadata.
pub(super) fn list_head(out: &mut Vec<u8>, meta: &ListMeta<'_>, version: MetaVersion) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadataList","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    super::write(out, meta);
    out.extend_from_slice(br#","items":["#);
}

/// Returns the error for a list requested as a single object.
pub(super) fn is_a_list(row: &Resource) -> Status {
    let kind = row.list_kind();
    Status::no_such_form(format!(
        "you requested PartialObjectMetadata, but the requested object is a list (*{}.{kind})",
        row.version
    ))
}

/// Returns the error for a single object requested as a list.
pub(super) fn is_no_list(row: &Resource) -> Status {
    Status::no_such_form(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list (*{}.{})",
        row.version, row.kind
    ))
}
