//! Defaults of the kinds that run Pods from a template.

use serde_json::Value;

use crate::kinds::defaults::pod::pod_spec;
use crate::object::fill::{JsonObject, is_zero, object_mut, object_or_insert, set_if_absent, set_if_zero};

pub(in crate::kinds) const HISTORY: u32 = 10;

pub(in crate::kinds) fn spec_of(object: &mut JsonObject) -> Option<&mut JsonObject> {
    object_or_insert(object, "spec")
}

pub(in crate::kinds) fn default_pod_template(parent: &mut JsonObject) {
    if let Some(spec) =
        object_or_insert(parent, "template").and_then(|template| object_or_insert(template, "spec"))
    {
        pod_spec(spec);
    }
}

pub(in crate::kinds) fn template_labels(spec: &mut JsonObject) -> Option<Value> {
    let metadata = object_mut(object_mut(spec, "template")?, "metadata")?;
    metadata.get("labels").filter(|labels| !is_zero(Some(labels))).cloned()
}

/// Fills in the update strategy at `name`: `RollingUpdate` with its parameters unless another type is set.
pub(in crate::kinds) fn rolling_update(spec: &mut JsonObject, name: &str, parameters: &[(&str, Value)]) {
    let Some(strategy) = object_or_insert(spec, name) else { return };
    set_if_zero(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        return;
    }
    let Some(rolling) = object_or_insert(strategy, "rollingUpdate") else { return };
    for (parameter, value) in parameters {
        set_if_absent(rolling, parameter, value.clone());
    }
}
