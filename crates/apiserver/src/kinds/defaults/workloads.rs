//! Defaults of the kinds that run Pods from a template.

use serde_json::Value;

use crate::kinds::defaults::pod::pod_spec;
use crate::kinds::fill::{Fields, fill, fill_zero, inner, is_zero, made};

pub(in crate::kinds) const HISTORY: u32 = 10;

pub(in crate::kinds) fn spec(object: &mut Fields) -> Option<&mut Fields> {
    made(object, "spec")
}

pub(in crate::kinds) fn template(parent: &mut Fields) {
    if let Some(spec) = made(parent, "template").and_then(|template| made(template, "spec")) {
        pod_spec(spec);
    }
}

pub(in crate::kinds) fn template_labels(spec: &mut Fields) -> Option<Value> {
    let metadata = inner(inner(spec, "template")?, "metadata")?;
    metadata.get("labels").filter(|labels| !is_zero(Some(labels))).cloned()
}

/// The update strategy at `name`: `RollingUpdate` with its parameters unless another type is said.
pub(in crate::kinds) fn rolling_update(spec: &mut Fields, name: &str, parameters: &[(&str, Value)]) {
    let Some(strategy) = made(spec, name) else { return };
    fill_zero(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        return;
    }
    let Some(rolling) = made(strategy, "rollingUpdate") else { return };
    for (parameter, value) in parameters {
        fill(rolling, parameter, value.clone());
    }
}
