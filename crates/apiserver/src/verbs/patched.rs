//! The type of an object that a patch made. A patch may name any apiVersion and kind; what comes of it depends on how the
//! patch is applied and who serves the kind, as recorded from Kubernetes.
//!
//! * A strategic patch is applied to the typed object, so texts make no difference.
//! * Other results are decoded anew. A version that is no longer served is still understood; no version means Kubernetes'
//!   internal one, in which no field has the name it has in JSON.
//! * Custom objects are decoded whatever they say, but refused; a write of their status keeps the stored type.

use serde_json::Value;

use super::Call;
use super::decode_body::wrong_type;
use super::update::check_names;
use crate::decode;
use crate::field;
use crate::kinds::declaration::Kind;
use crate::resource::Resource;
use crate::status::Status;

/// Why an object is not of a type that can be written here, and what was dropped before that was found.
pub(super) struct Refusal {
    pub(super) status: Box<Status>,
    pub(super) dropped: Vec<String>,
    /// Could it be decoded all the same? Then the refusal is not one of the patch.
    pub(super) is_decoded: bool,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status: Box::new(status), dropped: Vec::new(), is_decoded: false }
    }
}

/// Makes the object one of the resource's type, or refuses it. Gives complaints about the fields it dropped.
pub(super) fn check_type(
    call: &Call,
    object: &mut Value,
    is_strategic: bool,
) -> Result<Vec<String>, Refusal> {
    check_texts(object, is_strategic)?;
    let resource = &call.resource;
    let dropped = if resource.is_custom() {
        check_custom(call, object)?
    } else {
        if !is_strategic {
            check_built_in(call, object)?;
        }
        Vec::new()
    };
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = (*resource.kind).into();
    Ok(dropped)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

fn check_texts(object: &Value, is_strategic: bool) -> Result<(), Status> {
    for name in ["apiVersion", "kind"] {
        let value = &object[name];
        if value.is_string() || value.is_null() {
            continue;
        }
        let found = decode::type_name(value);
        return Err(Status::bad_request(if is_strategic {
            format!("cannot convert {} to string", if value.is_i64() { "int64" } else { found })
        } else {
            format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field \
                 .{name} of type string"
            )
        }));
    }
    Ok(())
}

fn check_built_in(call: &Call, object: &mut Value) -> Result<(), Refusal> {
    let resource = &call.resource;
    let api_version = text(object, "apiVersion");
    let kind = Some(text(object, "kind")).filter(|kind| !kind.is_empty()).unwrap_or(&resource.kind);
    if api_version.is_empty() {
        let mut dropped = drop_unknown(object);
        if object.get("metadata").is_some() {
            dropped.push("unknown field \"metadata\"".to_owned());
            dropped.sort();
        }
        let status = check_names(call, &Value::Null).expect_err("no name is given");
        return Err(Refusal { status: Box::new(status), dropped, is_decoded: true });
    }
    if (api_version == resource.api_version() || is_old_version(resource, api_version))
        && kind == &*resource.kind
    {
        return Ok(());
    }
    Err(Status::bad_request(wrong_type(resource, api_version, kind)).into())
}

fn is_old_version(resource: &Resource, api_version: &str) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_old = |kind: &Kind| kind.group == group && kind.old_versions.contains(&version);
    resource.declaration().is_some_and(is_old)
}

fn check_custom(call: &Call, object: &mut Value) -> Result<Vec<String>, Refusal> {
    let resource = &call.resource;
    if text(object, "kind").is_empty() {
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{object}'")).into());
    }
    if text(object, "apiVersion").is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal(why).into());
    }
    let dropped = if is_other_version(resource, object) { drop_unknown(object) } else { Vec::new() };
    if call.path.subresource == "status" {
        return Ok(dropped);
    }
    match invalid_type(resource, object) {
        None => Ok(dropped),
        Some(status) => Err(Refusal { status: Box::new(status), dropped, is_decoded: true }),
    }
}

fn invalid_type(resource: &Resource, object: &Value) -> Option<Status> {
    let root = field::Path::Root;
    let expected = [("kind", resource.kind.to_string()), ("apiVersion", resource.api_version())];
    let wrong = expected.into_iter().filter(|(name, expected)| text(object, name) != expected);
    let mut errors = field::Errors::new();
    for (name, expected) in wrong {
        let detail = format!("must be {expected}");
        errors.push(field::Error::invalid(&root.field(name), &object[name], &detail));
    }
    let (group, _) = text(object, "apiVersion").split_once('/').unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (!errors.is_empty()).then(|| Status::invalid(group, text(object, "kind"), name, &errors))
}

/// Is it of a version that the definition of this resource does not have? No field of such a version is known.
pub(super) fn is_other_version(resource: &Resource, object: &Value) -> bool {
    let Some(custom) = resource.custom() else { return false };
    let version = text(object, "apiVersion").split_once('/').filter(|(group, _)| *group == &*resource.group);
    version.is_some_and(|(_, version)| *version != *resource.version && !custom.schemas.contains_key(version))
}

/// Drops every field but the metadata, and complains of each.
pub(super) fn drop_unknown(object: &mut Value) -> Vec<String> {
    let Some(fields) = object.as_object_mut() else { return Vec::new() };
    let is_known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
    let mut unknown = field::Texts::new();
    fields.retain(|name, _| {
        if !is_known(name) {
            unknown.push_with(|| format!("unknown field {name:?}"));
        }
        is_known(name)
    });
    unknown.into()
}
