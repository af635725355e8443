//! CustomResourceDefinition: a kind that is served from then on.

use serde_json::Value;

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::fill::Fields;
use crate::kinds::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::{field, schema};

/// A kind that is served from then on.
pub(crate) static CUSTOM_RESOURCE_DEFINITION: Kind = Kind {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    subresources: &[STATUS],
    strategy: PLAIN.counted().conditional().with_status(ALL_BUT_STATUS),
    prepare_create: Some(|_, fields, _| {
        defaults(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, _| defaults(fields)),
    validate_create: Some(|object, errors| errors.append(errors_of(object.value, None))),
    validate_update: Some(|new, old, errors| errors.append(errors_of(new.value, Some(old)))),
    warn: Some(schema::definition_warnings),
    ..Kind::cluster_scoped(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
};

/// Fills in names and what belongs to a conversion. Definitions are defaulted after their status was reset.
fn defaults(fields: &mut Fields) {
    let mut definition = Value::Object(std::mem::take(fields));
    schema::default_definition(&mut definition);
    if let Value::Object(filled) = definition {
        *fields = filled;
    }
}

/// What is wrong with a definition; its rules are read only when the rest is right. Whoever writes its status knows what was
/// migrated, so that is not judged.
fn errors_of(new: &Value, old: Option<&Value>) -> field::Errors {
    let errors = schema::validate_definition(new, old);
    if errors.is_empty() { schema::cel_faults(new, old) } else { errors }
}
