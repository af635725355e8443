//! Checks the type of the object that a patch produced. A patch may name any apiVersion and kind; the outcome depends
//! on how the patch is applied and which part of Kubernetes serves the kind, as recorded from Kubernetes.
//!
//! * A strategic patch is applied to the typed object, so these fields make no difference.
//! * Other results are decoded again. A version that is no longer served is still understood; no version means
//!   Kubernetes' internal one, in which no field has its JSON name.
//! * Custom objects are decoded regardless of their type, but refused; a write to their status keeps the stored type.

use homeostat_api::decode;
use homeostat_api::field;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AuthorizedRequest;
use super::decode_body::wrong_type;
use super::update::check_names;

/// The reason an object does not have a type that can be written here, and which fields were removed before that was
/// detected.
pub(super) struct PatchedTypeError {
    pub(super) status: Box<Status>,
    pub(super) dropped: Vec<String>,
    /// Whether it could be decoded anyway. If so, the refusal does not concern the patch.
    pub(super) is_decoded: bool,
}

impl From<Status> for PatchedTypeError {
    fn from(status: Status) -> Self {
        Self { status: Box::new(status), dropped: Vec::new(), is_decoded: false }
    }
}

/// Converts the object to the resource's type, or refuses it. Returns the problems with the fields that it removed.
pub(super) fn check_type(
    call: &AuthorizedRequest,
    object: &mut Value,
    is_strategic: bool,
) -> Result<Vec<String>, PatchedTypeError> {
    if object.is_array() {
        let why = r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        return Err(Status::bad_request(why).into());
    }
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

fn text_field<'a>(object: &'a Value, name: &str) -> &'a str {
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

fn check_built_in(call: &AuthorizedRequest, object: &mut Value) -> Result<(), PatchedTypeError> {
    let resource = &call.resource;
    let api_version = text_field(object, "apiVersion");
    let kind = Some(text_field(object, "kind")).filter(|kind| !kind.is_empty()).unwrap_or(&resource.kind);
    if api_version.is_empty() {
        let mut dropped = drop_unknown(object);
        if object.get("metadata").is_some() {
            dropped.push("unknown field \"metadata\"".to_owned());
            dropped.sort();
        }
        let status = check_names(call, &Value::Null).expect_err("no name is given");
        return Err(PatchedTypeError { status: Box::new(status), dropped, is_decoded: true });
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
    let is_old = |kind: &BuiltInKind| kind.group == group && kind.old_versions.contains(&version);
    resource.declaration().is_some_and(is_old)
}

fn check_custom(call: &AuthorizedRequest, object: &mut Value) -> Result<Vec<String>, PatchedTypeError> {
    let resource = &call.resource;
    if text_field(object, "kind").is_empty() {
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{object}'")).into());
    }
    if object.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(Status::bad_request(why).into());
    }
    if text_field(object, "apiVersion").matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {}", text_field(object, "apiVersion"));
        return Err(Status::bad_request(why).into());
    }
    if text_field(object, "apiVersion").is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal(why).into());
    }
    let dropped = if is_other_version(resource, object) { drop_unknown(object) } else { Vec::new() };
    if call.path.subresource == "status" {
        return Ok(dropped);
    }
    match invalid_type(resource, object) {
        None => Ok(dropped),
        Some(status) => Err(PatchedTypeError { status: Box::new(status), dropped, is_decoded: true }),
    }
}

fn invalid_type(resource: &Resource, object: &Value) -> Option<Status> {
    let root = field::FieldPath::Root;
    let expected = [("kind", resource.kind.to_string()), ("apiVersion", resource.api_version())];
    let wrong = expected.into_iter().filter(|(name, expected)| text_field(object, name) != expected);
    let mut errors = field::Errors::new();
    for (name, expected) in wrong {
        let detail = format!("must be {expected}");
        errors.push(field::Error::invalid(&root.field(name), &object[name], &detail));
    }
    let (group, _) = text_field(object, "apiVersion").split_once('/').unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (!errors.is_empty()).then(|| Status::invalid(group, text_field(object, "kind"), name, &errors))
}

/// Returns whether the object has a version that the definition of this resource does not have. No field of such a
/// version is known.
pub(super) fn is_other_version(resource: &Resource, object: &Value) -> bool {
    let Some(custom) = resource.custom() else { return false };
    let version =
        text_field(object, "apiVersion").split_once('/').filter(|(group, _)| *group == &*resource.group);
    version.is_some_and(|(_, version)| *version != *resource.version && !custom.schemas.contains_key(version))
}

/// Removes every field except the metadata, and returns a problem for each.
pub(super) fn drop_unknown(object: &mut Value) -> Vec<String> {
    let Some(fields) = object.as_object_mut() else { return Vec::new() };
    let is_known = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
    let mut unknown = field::BoundedTexts::new();
    fields.retain(|name, _| {
        if !is_known(name) {
            unknown.push_with(|| format!("unknown field {name:?}"));
        }
        is_known(name)
    });
    unknown.into()
}
