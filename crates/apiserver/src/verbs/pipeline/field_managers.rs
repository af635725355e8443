//! Records field managers for every write except server-side apply, which does that while it merges.

use homeostat_api::patch::apply::{FieldManager, track_update};
use homeostat_api::resource::prepare::fold_aliases;
use serde_json::Value;

use crate::verbs::AuthorizedRequest;

/// Records who changed which fields.
pub(super) fn record(call: &AuthorizedRequest, old: Option<&Value>, new: &mut Value, manager: &str) {
    fold_aliases(&call.resource, new);
    let schema = call.resource.schema();
    let api_version = call.resource.api_version();
    track_update(schema.as_deref(), old, new, &call.manager(manager, &api_version), call.reset_fields());
}

impl AuthorizedRequest {
    /// Returns the manager of this write, for the record of managed fields.
    pub(in crate::verbs) fn manager<'a>(&'a self, name: &'a str, api_version: &'a str) -> FieldManager<'a> {
        FieldManager {
            name,
            api_version,
            kind: &self.resource.kind,
            subresource: &self.path.subresource,
            time: self.backend.clock.now(),
        }
    }

    /// Returns the fields that this endpoint never writes, regardless of the request.
    pub(in crate::verbs) fn reset_fields(&self) -> &'static [&'static str] {
        match &*self.path.subresource {
            "" => self.strategy().reset_on_main,
            "status" => self.strategy().reset_on_status,
            _ => &[],
        }
    }
}
