//! Which objects a list, watch or collection means: namespace, name, labels and fields.

use std::cell::OnceCell;
use std::sync::Arc;

use homeostat_core::selector::{FieldSelector, LabelSelector};
use homeostat_store::Entry;

use super::Call;
use crate::convert;
use crate::kinds::selectable;
use crate::object::encode;
use crate::object::view::View;
use crate::resource::Resource;
use crate::status::Status;

/// The selectors of one request.
pub(super) struct Selection {
    resource: Arc<Resource>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    name: String,
}

impl Selection {
    pub(super) fn of(call: &Call) -> Result<Self, Status> {
        let labels = call.query.get("labelSelector");
        let labels = (!labels.is_empty())
            .then(|| LabelSelector::parse(labels).map_err(|error| Status::bad_request(error.to_string())))
            .transpose()?;
        let fields = call.query.get("fieldSelector");
        let fields = (!fields.is_empty()).then(|| parse_fields(&call.resource, fields)).transpose()?;
        Ok(Self { resource: Arc::clone(&call.resource), labels, fields, name: call.path.name.clone() })
    }

    /// Does it pass everything under the prefix?
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none() && self.name.is_empty()
    }

    /// Is any selector given?
    pub(super) fn has_selectors(&self) -> bool {
        self.labels.is_some() || self.fields.is_some()
    }

    pub(super) fn matches(&self, entry: &Entry) -> bool {
        if !self.name.is_empty() && entry.key.name() != self.name {
            return false;
        }
        if let Some(labels) = &self.labels {
            let view = View::of_entry(entry);
            if !labels.matches(|key| view.label(key)) {
                return false;
            }
        }
        self.fields.as_ref().is_none_or(|fields| self.fields_match(fields, entry))
    }

    /// Name and namespace are in the key; only other fields need the object.
    fn fields_match(&self, fields: &FieldSelector, entry: &Entry) -> bool {
        let object = OnceCell::new();
        let values = fields.terms().iter().map(|term| match &*term.field {
            "metadata.name" | "metadata.namespace" => String::new(),
            other => {
                let decoded = || match self.resource.custom() {
                    Some(_) => convert::decode(&self.resource, entry),
                    None => encode::decode(entry),
                };
                let object = object.get_or_init(decoded);
                selectable::field(&self.resource, other, object).unwrap_or_default()
            }
        });
        let values = values.collect::<Vec<_>>();
        fields.matches(|field| match field {
            "metadata.name" => entry.key.name(),
            "metadata.namespace" => entry.key.namespace(),
            other => {
                let at = fields.terms().iter().position(|term| &*term.field == other);
                at.map_or("", |at| &values[at])
            }
        })
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<FieldSelector, Status> {
    let fields = FieldSelector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    for term in fields.terms() {
        selectable::check(resource, &term.field)?;
    }
    Ok(fields)
}
