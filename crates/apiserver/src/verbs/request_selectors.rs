//! Selects the objects for a list, watch or collection: by namespace, name, labels and fields.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use homeostat_api::resource::Resource;
use homeostat_api::resource::selectable;
use homeostat_api::status::Status;
use homeostat_core::selector::{FieldSelector, LabelSelector};
use homeostat_store::Entry;

use super::AuthorizedRequest;
use crate::stored::convert;
use crate::stored::encode;
use crate::stored::labels_and_owners::LabelsAndOwners;

/// The maximum number of keys and values in the selectors of one request. Programs use a few dozen; a URL has room
/// for twenty thousand.
const SELECTOR_TERMS_MAX: usize = 1000;

/// The selectors of one request.
pub(super) struct RequestSelectors {
    resource: Arc<Resource>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    name: String,
}

impl RequestSelectors {
    pub(super) fn parse(call: &AuthorizedRequest) -> Result<Self, Status> {
        let labels = call.query.get("labelSelector");
        let labels = (!labels.is_empty())
            .then(|| LabelSelector::parse(labels).map_err(|error| Status::bad_request(error.to_string())))
            .transpose()?;
        let fields = call.query.get("fieldSelector");
        let fields = (!fields.is_empty()).then(|| parse_fields(&call.resource, fields)).transpose()?;
        check_length(labels.as_ref(), fields.as_ref())?;
        Ok(Self { resource: Arc::clone(&call.resource), labels, fields, name: call.path.name.clone() })
    }

    /// Returns whether everything under the prefix is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none() && self.name.is_empty()
    }

    /// Returns whether objects are selected by their content.
    pub(super) fn has_fields(&self) -> bool {
        self.fields.is_some()
    }

    /// Returns whether any selector is given.
    pub(super) fn has_selectors(&self) -> bool {
        self.labels.is_some() || self.fields.is_some()
    }

    pub(super) fn matches(&self, entry: &Entry) -> bool {
        if !self.name.is_empty() && entry.key.name() != self.name {
            return false;
        }
        if let Some(labels) = &self.labels {
            let view = LabelsAndOwners::from_entry(entry);
            if !labels.matches(|key| view.label(key)) {
                return false;
            }
        }
        self.fields.as_ref().is_none_or(|fields| self.fields_match(fields, entry))
    }

    /// Matches the fields. Name and namespace are in the key; only other fields need the object.
    fn fields_match(&self, fields: &FieldSelector, entry: &Entry) -> bool {
        let object = OnceCell::new();
        let value = |field: &str| -> Cow<'_, str> {
            match field {
                "metadata.name" => return entry.key.name().into(),
                "metadata.namespace" => return entry.key.namespace().into(),
                _ => {}
            }
            let decoded = || match self.resource.custom() {
                Some(_) => convert::decode_in_version(&self.resource, entry),
                None => encode::parse_entry(entry),
            };
            selectable::field(&self.resource, field, object.get_or_init(decoded)).unwrap_or_default().into()
        };
        // Terms are sorted, so terms for the same field are adjacent.
        fields.terms().chunk_by(|left, right| left.field == right.field).all(|terms| {
            let value = terms.first().map(|term| value(&term.field)).unwrap_or_default();
            terms.iter().all(|term| (*value == *term.value) == term.is_equal)
        })
    }
}

/// Returns whether this field selector names anything other than the parts of a key.
pub(super) fn looks_into_objects(fields: &str) -> bool {
    !fields.is_empty() && fields.split(',').any(|term| !term.trim_start().starts_with("metadata.name"))
}

/// Refuses selectors that would make processing every object, and every event of a watch, expensive.
fn check_length(labels: Option<&LabelSelector>, fields: Option<&FieldSelector>) -> Result<(), Status> {
    let labels = labels.map(LabelSelector::requirements).unwrap_or_default();
    let values: usize = labels.iter().map(|requirement| 1 + requirement.values().len()).sum();
    if values + fields.map_or(0, |fields| fields.terms().len()) <= SELECTOR_TERMS_MAX {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the selectors name more than {SELECTOR_TERMS_MAX} keys and values; use fewer"
    )))
}

fn parse_fields(resource: &Resource, text: &str) -> Result<FieldSelector, Status> {
    let fields = FieldSelector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    for term in fields.terms() {
        selectable::check(resource, &term.field)?;
    }
    Ok(fields)
}
