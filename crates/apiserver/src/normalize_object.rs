//! Brings a decoded object into the form in which it is stored: without unknown fields, and with the types and
//! defaults of its kind.

use homeostat_api::field;
use homeostat_api::kinds;
use homeostat_api::resource::Resource;
use homeostat_api::schema;
use homeostat_api::status::Status;
use serde_json::Value;

/// Normalizes an object that admission changed: removes unknown fields, and fills in defaults again.
pub(crate) fn normalize_mutated(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    normalize(resource, object, false, false).map(drop)
}

/// Removes fields that are not in the schema (and returns them as problems if they must be reported), and fills in
/// defaults.
pub(crate) fn normalize(
    resource: &Resource,
    object: &mut Value,
    must_report: bool,
    is_strategic: bool,
) -> Result<Vec<String>, Status> {
    let Some(schema) = resource.schema() else { return Ok(Vec::new()) };
    let mut unknown = field::BoundedTexts::new();
    let report = must_report.then_some(&mut unknown);
    if resource.is_custom() {
        schema::prune(&schema, object, report);
        schema::decode_metadata(object).map_err(Status::bad_request)?;
        schema::decode_embedded(&schema, object).map_err(Status::bad_request)?;
        schema::default(&schema, object).map_err(defaults_too_large)?;
    } else {
        schema::prune(&schema, object, report);
        if is_strategic {
            schema::restore(&schema, object).map_err(Status::bad_request)?;
        } else {
            schema::decode(&schema, object)
                .map_err(|why| schema::cannot_be_handled(&resource.kind, &resource.version, &why))?;
        }
        if let Some(kind) = resource.declaration() {
            kinds::defaults::default(kind, object);
        }
    }
    Ok(unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect())
}

/// Returns the refusal for an object that becomes too large with the defaults of its kind.
pub(crate) fn defaults_too_large(_: schema::TooLarge) -> Status {
    Status::too_large(
        "Request entity too large: the defaults of its kind's schema make the object too large; \
         send fewer items, or make the defaults smaller",
    )
}
